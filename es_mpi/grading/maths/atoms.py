r"""What stands in brackets, functions with their arguments, numbers, names, matrices: the lowest level of the grammar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from es_mpi.grading.maths.lexer import Token
from es_mpi.grading.maths.node import MAX_DEPTH, Node, Unreadable

CLOSING = {"(": (")", "]"), "[": ("]", ")")}
TRIGONOMETRIC = frozenset("sin cos tan cot sec csc sinh cosh tanh".split())
UNKNOWN_FUNCTIONS = frozenset("fgFG")
FLOORS = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
NOTHING: frozenset[str] = frozenset()
ARGUMENT_ENDS = frozenset({"+", "-", "pm", "mp"})


class Atoms:
    """A cursor over tokens. `listing`, `relation`, `sum` and `signed_factor` come from `parser.Parser`."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.place = 0
        self.depth = 0

    def listing(self, stop: frozenset[str]) -> Node:
        raise NotImplementedError

    def relation(self, stop: frozenset[str]) -> Node:
        raise NotImplementedError

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def at(self, text: str) -> bool:
        return self.token is not None and self.token.kind in ("op", "sym") and self.token.text == text

    def take(self) -> Token:
        token = self.token
        if token is None:
            raise Unreadable("ends too early")
        self.place += 1
        return token

    def expect(self, *texts: str) -> str:
        token = self.take()
        if token.text not in texts:
            raise Unreadable(f"expected {texts[0]}, found {token.text!r}")
        return token.text

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        yield
        self.depth -= 1

    def words(self) -> str:
        """Words from here on, a power or fraction of units included; nothing if there are none."""
        found: list[str] = []
        while self.token is not None:
            article = found and self.token.text in ("a", "A") and self._peek_kind() == "word"
            if self.token.kind == "word" or (found and self.token.kind == "upright") or article:
                found.append(self.take().text)
            elif found and self.at("^"):
                self.take()
                self.argument()
            elif found and self.at("/") and self._peek_kind() in ("word", "upright"):
                self.take()
            else:
                break
        return " ".join(found)

    def _peek_kind(self) -> str:
        return self.tokens[self.place + 1].kind if self.place + 1 < len(self.tokens) else ""

    def starts_factor(self, left: Node) -> bool:
        """Does a factor begin here without a sign of multiplication?"""
        token = self.token
        if token is None:
            return False
        if token.kind == "num":
            return left.kind != "num"
        if token.kind == "upright":
            return left.kind not in ("num", "div")
        return token.kind in ("sym", "fn") or (token.kind == "op" and token.text in ("(", "{", "[", "\\{", *FLOORS))

    def postfix(self, stop: frozenset[str]) -> Node:
        """An atom with powers, factorials, percent signs, degrees and primes behind it."""
        node = self.atom(stop)
        while self.token is not None and self.token.text not in stop:
            if self.at("^"):
                self.take()
                node = self._power(node)
            elif self.at("!"):
                self.take()
                node = Node("call", (node,), "factorial")
            elif self.at("%"):
                self.take()
                node = Node("percent", (node,))
            elif self.at("deg"):
                self.take()
                node = self._minutes(node)
            elif self.token.kind == "upright" and node.kind in ("num", "div") and node.text != "unit":
                return Node("unit", (node,), self._upright())
            else:
                break
        return node

    def _upright(self) -> str:
        """An upright letter behind a number, with what else belongs to the unit: m/s."""
        word = self.take().text
        while self.at("^") or (self.at("/") and self._peek_kind() in ("word", "upright")):
            if self.take().text == "^":
                self.argument()
            else:
                word += "/" + self.take().text
        return word

    def _minutes(self, degrees: Node) -> Node:
        """Degrees, with the minutes of arc that may follow: 60 deg 42'."""
        if self.token is not None and self.token.kind == "num" and self._peek_text() == "'":
            minutes = Node("div", (Node("num", text=self.take().text), Node("num", text="60")))
            self.take()
            return Node("deg", (Node("add", (degrees, minutes)),))
        return Node("deg", (degrees,))

    def _peek_text(self) -> str:
        return self.tokens[self.place + 1].text if self.place + 1 < len(self.tokens) else ""

    def _power(self, base: Node) -> Node:
        if self.at("{") and self._peek_text() in ("deg", "'", "\\prime"):
            self.take()
            mark = self.take().text
            self.expect("}")
            return self._minutes(base) if mark == "deg" else Node("sym", text=f"{base.text}'")
        if self.at("deg"):
            self.take()
            return self._minutes(base)
        if self.at("'"):
            self.take()
            return Node("sym", text=f"{base.text}'")
        return Node("pow", (base, self.argument()))

    def argument(self, digits: int | None = None) -> Node:
        """A group in braces, or one token with its sign (of a number the first `digits` only, as LaTeX reads)."""
        if self.at("-") or self.at("+"):
            sign = self.take().text
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
        if self.at("\\}"):
            self.take()
            return Node("set")
        inner = self.listing(frozenset({"\\}", "|", ":"}))
        if self.at("|") or self.at(":"):
            self.take()
            inner = self.listing(frozenset({"\\}"}))
            self.expect("\\}")
            return inner
        self.expect("\\}")
        return Node("set", inner.args if inner.kind == "list" else (inner,))

    def _number(self, digits: str) -> Node:
        """A number, in the base that its subscript says."""
        if not self.at("_"):
            return Node("num", text=digits)
        self.take()
        return Node("based", (Node("num", text=digits),), self._subscript())

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
        if self.at("_"):
            self.take()
            name += "_" + self._subscript()
        while self.at("'"):
            self.take()
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
            if self.at("["):
                self.take()
                index = self.listing(frozenset({"]"}))
                self.expect("]")
            return Node("call", (self.argument(),) if index is None else (self.argument(), index), "sqrt")
        base = None
        if self.at("_"):
            self.take()
            base = self.argument()
        power = None
        if self.at("^"):
            self.take()
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
            node = Node("mul", (node, self.postfix(NOTHING)))
        return (node,)

    def _matrix(self, begin: str) -> Node:
        if "matrix" not in begin and "array" not in begin:
            raise Unreadable(f"unexpected {begin!r}")
        rows: list[list[Node]] = [[]]
        stop = frozenset({"&", "break", "end"})
        while self.token is not None and self.token.kind != "env":
            if self.at("&"):
                self.take()
            elif self.at("break"):
                self.take()
                rows.append([])
            else:
                rows[-1].append(self.relation(stop))
        if not self.take().text.startswith("\\end"):
            raise Unreadable("a matrix in a matrix")
        rows = [row for row in rows if row]
        if len({len(row) for row in rows}) != 1:
            raise Unreadable("rows of unequal length")
        return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))
