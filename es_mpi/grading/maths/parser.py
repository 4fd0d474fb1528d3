r"""From tokens to a tree: a recursive descent over lists, relations, unions, sums, products, powers and atoms."""

from __future__ import annotations

from functools import lru_cache

from es_mpi.grading.maths.atoms import Atoms
from es_mpi.grading.maths.lexer import Token, tokens, undress
from es_mpi.grading.maths.node import MAX_LENGTH, Node, Unreadable
from es_mpi.grading.maths.units import is_unit, unit_name

RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "~", "in", "equiv", "to"})
SCALES = {"hundred": "100", "thousand": "1000", "million": "1e6", "billion": "1e9", "trillion": "1e12"}
MEANINGS = {
    **{words: Node("sym", text="set R") for words in ("all real numbers", "all reals", "any real number", "real numbers")},
    **{words: Node("sym", text="inf") for words in ("infinitely many", "infinite", "infinitely many solutions")},
}
SEPARATORS = frozenset({",", ";", "and", "or", "break"})


@lru_cache(maxsize=4096)
def parse(answer: str) -> Node:
    """The tree of an answer. Raises Unreadable. Linear in the text, which is bounded; evaluates nothing."""
    if len(answer) > MAX_LENGTH:
        raise Unreadable("too long")
    found = tokens(undress(answer))
    if not found:
        raise Unreadable("empty")
    if words := _only_words(found):
        return MEANINGS.get(words.lower()) or Node("text", text=words)
    parser = Parser(found)
    node = parser.listing(frozenset())
    if parser.token is not None:
        raise Unreadable(f"unexpected {parser.token.text!r}")
    return node


def _only_words(found: list[Token]) -> str:
    """The text of an answer in words (at least one of them no unit of a number), else nothing."""
    if any(token.kind in ("num", "fn", "env") or token.text in RELATIONS for token in found):
        return ""
    if not any(token.kind == "word" for token in found):
        return ""
    return " ".join(token.text for token in found)


class Parser(Atoms):
    """The levels from lists down to powers; `Atoms` has what stands in brackets, functions and numbers."""

    def listing(self, stop: frozenset[str]) -> Node:
        """Entries between separators, up to the end or a token of `stop`. Semicolons bind weaker than commas."""
        rows: list[list[Node]] = [[]]
        joiner, due = ",", True
        while self.token is not None and self.token.text not in stop:
            if self.token.text in SEPARATORS and self.token.kind == "op":
                mark = self.take().text
                if mark in (";", "break") and rows[-1]:
                    rows.append([])
                joiner, due = mark if mark in ("or", "and") else joiner, True
                continue
            if not due:
                raise Unreadable(f"no separator before {self.token.text!r}")
            rows[-1].append(self.relation(stop))
            due = False
        rows = [row for row in rows if row]
        if not rows:
            raise Unreadable("nothing between brackets")
        if len(rows) == 1:
            return rows[0][0] if len(rows[0]) == 1 else Node("list", tuple(rows[0]), joiner)
        return Node("list", tuple(row[0] if len(row) == 1 else Node("list", tuple(row), ",") for row in rows), ";")

    def relation(self, stop: frozenset[str]) -> Node:
        self.words()  # a label in words: "Answer: 9"
        self.accept("=", "~", ":")
        operands, relations = [self.union(stop)], []
        while self.token is not None and self.token.kind == "op" and self.token.text in RELATIONS:
            if self.token.text in stop:
                break
            relations.append(self.take().text)
            operands.append(self.union(stop))
        return Node("rel", tuple(operands), " ".join(relations)) if relations else operands[0]

    def union(self, stop: frozenset[str]) -> Node:
        node = self.ratio(stop)
        while sign := self.accept("cup", "setminus"):
            self.count()
            kind = "union" if sign == "cup" else "without"
            node = Node(kind, (*(node.args if kind == node.kind == "union" else (node,)), self.ratio(stop)))
        return node

    def ratio(self, stop: frozenset[str]) -> Node:
        parts = [self.quantity(stop)]
        while ":" not in stop and self.accept(":"):
            parts.append(self.quantity(stop))
        return Node("ratio", tuple(parts)) if len(parts) > 1 else parts[0]

    def quantity(self, stop: frozenset[str]) -> Node:
        """A sum with what may follow it: a unit in words."""
        node = self.sum(stop)
        words = self.words(unit=not node.symbols())
        scale, _, rest = words.partition(" ")
        if scale in SCALES:
            node, words = Node("mul", (node, Node("num", text=SCALES[scale]))), rest
        if not words:
            return node
        node = Node("unit", (node,), words)
        if self.token is not None and self.token.kind == "num" and is_unit(unit_name(words)):  # 2 hours 30 minutes
            self.count()
            return Node("tuple", (node, self.quantity(stop)), "()")
        return node

    def sum(self, stop: frozenset[str]) -> Node:
        node = self.signed(stop)
        while sign := self.accept("+", "-", "pm", "mp"):
            self.count()
            right = self.product(stop)
            if sign in ("+", "-"):
                node = Node("add", (node, right if sign == "+" else Node("neg", (right,))))
            else:
                node = Node(sign, (node, right))
        return node

    def signed(self, stop: frozenset[str]) -> Node:
        """A product with any signs in front."""
        if sign := self.accept("+", "-", "pm", "mp"):
            with self.deeper():
                inner = self.signed(stop)
            return inner if sign == "+" else Node("neg" if sign == "-" else sign, (inner,))
        return self.product(stop)

    def product(self, stop: frozenset[str]) -> Node:
        node = self.postfix(stop)
        while self.token is not None and self.token.text not in stop:
            self.count()
            if sign := self.accept("*", "/"):
                right = self.signed_factor(stop)
                node = Node("mul" if sign == "*" else "div", (node, right))
            elif self.starts_factor(node):
                right = self.postfix(stop)
                node = _mixed_number(node, right) or Node("mul", (node, right))
            else:
                break
        return node

    def signed_factor(self, stop: frozenset[str]) -> Node:
        if self.accept("-"):
            return Node("neg", (self.postfix(stop),))
        return self.postfix(stop)


def _mixed_number(whole: Node, part: Node) -> Node | None:
    r"""2\frac{5}{8}, also with a percent sign or degrees behind it."""
    if part.kind in ("percent", "deg"):
        inner = _mixed_number(whole, part.args[0])
        return Node(part.kind, (inner,)) if inner else None
    return Node("add", (whole, part)) if whole.kind == "num" and whole.text.isdigit() and _is_fraction(part) else None


def _is_fraction(node: Node) -> bool:
    """Is it a written fraction of whole numbers?"""
    return node.kind == "div" and node.text == "frac" and all(arg.kind == "num" and arg.text.isdigit() for arg in node.args)
