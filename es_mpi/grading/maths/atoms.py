r"""What stands in brackets, functions with their arguments, numbers, names, matrices: the lowest level of the grammar."""

from __future__ import annotations

from es_mpi.grading.maths.cursor import Cursor
from es_mpi.grading.maths.lexer import Token
from es_mpi.grading.maths.node import Node, Unreadable

CLOSING = {"(": (")", "]"), "[": ("]", ")")}
TRIGONOMETRIC = frozenset("sin cos tan cot sec csc sinh cosh tanh".split())
UNKNOWN_FUNCTIONS = frozenset("fgFG")
FLOORS = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
QUALIFIERS = frozenset(
    "not no never less more least most minus negative over under below above greater fewer exceeding except almost half twice "
    "double".split()
)
NOTHING: frozenset[str] = frozenset()


class Atoms(Cursor):
    """Atoms and what is bound to them most tightly. `listing` and `relation` come from `parser.Parser`."""

    def listing(self, stop: frozenset[str]) -> Node:
        raise NotImplementedError

    def relation(self, stop: frozenset[str]) -> Node:
        raise NotImplementedError

    def words(self, *, unit: bool = False) -> str:
        """Words from here on, a power or fraction of units included; nothing if there are none. A `unit` may be one letter."""
        found: list[str] = []
        start = self.place
        while self.token is not None:
            article = found and self.token.text in ("a", "A") and self.following.kind == "word"
            if self.token.kind == "word" or (self.token.kind == "upright" and (found or unit)) or article:
                found.append(self.take().text)
            elif found and self.at("^"):
                self.take()
                self.argument()
            elif found and self.at("/") and self.following.kind in ("word", "upright", "sym"):
                self.take()
                found.append(f"{found.pop()}/{self.take().text}")
            else:
                break
        if QUALIFIERS & {token.text.lower() for token in self.tokens[start : self.place]}:
            raise Unreadable("a quantity with words that change it")
        return " ".join(found)

    def starts_factor(self, left: Node) -> bool:
        """Does a factor begin here without a sign of multiplication?"""
        token = self.token
        if token is None:
            return False
        if token.kind == "num":
            return left.kind != "num"
        if token.kind == "upright":
            return bool(left.symbols())  # behind a number it is a unit
        return token.kind in ("sym", "fn") or (token.kind == "op" and token.text in ("(", "{", "[", "\\{", *FLOORS))

    def postfix(self, stop: frozenset[str]) -> Node:
        """An atom with powers, factorials, percent signs, degrees and primes behind it."""
        node = self.atom(stop)
        while self.token is not None and self.token.text not in stop:
            self.count()
            if self.accept("^"):
                node = self._power(node)
            elif self.accept("!"):
                node = Node("call", (node,), "factorial")
            elif self.accept("%"):
                node = Node("percent", (node,))
            elif self.accept("deg"):
                node = self._minutes(node)
            else:
                break
        return node

    def _minutes(self, degrees: Node) -> Node:
        """Degrees, with the minutes of arc that may follow: 60 deg 42'."""
        if self.token is not None and self.token.kind == "num" and self.following.text == "'":
            minutes = Node("div", (Node("num", text=self.take().text), Node("num", text="60")))
            self.take()
            return Node("deg", (Node("add", (degrees, minutes)),))
        return Node("deg", (degrees,))

    def _power(self, base: Node) -> Node:
        if self.at("{") and self.following.text in ("deg", "'", "\\prime"):
            self.take()
            mark = self.take().text
            self.expect("}")
            return self._minutes(base) if mark == "deg" else Node("sym", text=f"{base.text}'")
        if self.accept("deg"):
            return self._minutes(base)
        if self.accept("'"):
            return Node("sym", text=f"{base.text}'")
        return Node("pow", (base, self.argument()))

    def argument(self, digits: int | None = None) -> Node:
        """A group in braces, or one token with its sign (of a number the first `digits` only, as LaTeX reads)."""
        if sign := self.accept("-", "+"):
            with self.deeper():
                inner = self.argument(digits)
            return Node("neg", (inner,)) if sign == "-" else inner
        token = self.token
        if token is not None and token.kind == "num" and digits and len(token.text) > digits and token.text.isdigit():
            self.tokens[self.place] = Token("num", token.text[digits:])
            return Node("num", text=token.text[:digits])
        return self.atom(NOTHING)

    def atom(self, stop: frozenset[str]) -> Node:
        token = self.take()
        with self.deeper():
            if token.kind == "num":
                return self._number(token.text)
            if token.kind in ("sym", "upright"):
                return self._name(token.text)
            if token.kind == "fn":
                return self._function(token.text)
            if token.kind == "env":
                return self._matrix(token.text)
            if token.kind == "op":
                return self._bracket(token.text)
        raise Unreadable(f"unexpected {token.text!r}")

    def _bracket(self, opening: str) -> Node:
        if opening in CLOSING:
            inner = self.listing(frozenset(CLOSING[opening]))
            closing = self.expect(*CLOSING[opening])
            entries = inner.args if inner.kind == "list" else (inner,)
            return inner if len(entries) == 1 and inner.kind != "list" else Node("tuple", entries, opening + closing)
        if opening == "{":
            inner = self.listing(frozenset({"}"}))
            self.expect("}")
            return inner
        if opening == "\\{":
            return self._set()
        if opening == "|":
            inner = self.listing(frozenset({"|"}))
            self.expect("|")
            return Node("call", (inner,), "abs")
        if opening in FLOORS:
            closing, name = FLOORS[opening]
            inner = self.listing(frozenset({closing}))
            self.expect(closing)
            return Node("call", (inner,), name)
        if opening == "empty":
            return Node("set")
        if opening == "...":
            return Node("sym", text="...")
        raise Unreadable(f"unexpected {opening!r}")

    def _set(self) -> Node:
        """Entries in braces, or the condition of a set {x | condition}."""
        if self.accept("\\}"):
            return Node("set")
        inner = self.listing(frozenset({"\\}", "|", ":"}))
        if self.accept("|", ":"):
            inner = self.listing(frozenset({"\\}"}))
            self.expect("\\}")
            return inner
        self.expect("\\}")
        return Node("set", inner.args if inner.kind == "list" else (inner,))

    def _number(self, digits: str) -> Node:
        """A number, in the base that its subscript says."""
        number = Node("num", text=digits)
        return Node("based", (number,), self._subscript()) if self.accept("_") else number

    def _subscript(self) -> str:
        """A subscript as the end of a name: one token, or the text of a group."""
        first = self.take().text
        if first != "{":
            return first
        found = ""
        while not self.at("}"):
            found += self.take().text
        self.take()
        return found

    def _name(self, name: str) -> Node:
        """A variable with its subscript and primes, or an unknown function with its argument."""
        if self.accept("_"):
            name += "_" + self._subscript()
        while self.accept("'"):
            name += "'"
        if name.rstrip("'").partition("_")[0] in UNKNOWN_FUNCTIONS and self.at("("):
            inner = self._bracket(self.take().text)
            return Node("call", inner.args if inner.kind == "tuple" else (inner,), name)
        return Node("sym", text=name)

    def _function(self, name: str) -> Node:
        if name == "frac":
            return Node("div", (self.argument(1), self.argument(1)), "frac")
        if name == "binom":
            return Node("call", (self.argument(1), self.argument(1)), "binom")
        if name == "sqrt":
            index = None
            if self.accept("["):
                index = self.listing(frozenset({"]"}))
                self.expect("]")
            return Node("call", (self.argument(),) if index is None else (self.argument(), index), "sqrt")
        base = None
        if self.accept("_"):
            base = self.argument()
        power = None
        if self.accept("^"):
            power = self.argument()
        if power == Node("neg", (Node("num", text="1"),)) and name in TRIGONOMETRIC:
            name, power = f"arc{name}", None
        arguments = self._arguments()
        node = Node("call", (*arguments, base) if base else arguments, name)
        return Node("pow", (node, power)) if power else node

    def _arguments(self) -> tuple[Node, ...]:
        """In brackets, or without them a product up to the next sign or function: sin 2x."""
        if self.at("(") or self.at("["):
            inner = self._bracket(self.take().text)
            return inner.args if inner.kind == "tuple" else (inner,)
        if self.at("{"):
            return (self.argument(),)
        node = self.postfix(NOTHING)
        while self.token is not None and self.token.kind in ("num", "sym") and not (self.token.kind == "num" == node.kind):
            self.count()
            node = Node("mul", (node, self.postfix(NOTHING)))
        return (node,)

    def _matrix(self, begin: str) -> Node:
        if "matrix" not in begin and "array" not in begin:
            raise Unreadable(f"unexpected {begin!r}")
        rows: list[list[Node]] = [[]]
        stop = frozenset({"&", "break", "end"})
        while self.token is not None and self.token.kind != "env":
            if self.accept("break"):
                rows.append([])
            elif not self.accept("&"):
                rows[-1].append(self.relation(stop))
        if not self.take().text.startswith("\\end"):
            raise Unreadable("a matrix in a matrix")
        rows = [row for row in rows if row]
        if len({len(row) for row in rows}) != 1:
            raise Unreadable("rows of unequal length")
        return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))
