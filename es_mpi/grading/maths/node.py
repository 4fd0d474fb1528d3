"""The tree of a parsed answer, and the limits that keep hostile text cheap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_LENGTH = 1500  # characters of an answer; longer ones are compared as text only
MAX_DEPTH = 50  # brackets in brackets
MAX_OPERATIONS = 250  # signs and implied products, which a tree may hold one below the other
MAX_DIGITS = 400  # of one number


class Unreadable(Exception):
    """The text is no answer in the grammar of `parser.parse`, or larger than its limits."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `text` is what `kind` needs beside its arguments.

    | kind | text | arguments |
    |---|---|---|
    | num, sym, text | the literal, the name, the words | |
    | add, mul, div, pow, neg, pm, mp | | operands (`pm`: a or a, b for a plus or minus b) |
    | call | name of the function | its arguments |
    | percent, deg, unit, based | (unit) its words, (based) the base | the quantity |
    | ratio, union, without | | the parts; what is left, what is taken out |
    | rel | the relations, with a space between | the operands, one more than relations |
    | tuple | its two brackets | the entries |
    | list, set | (list) `,` `;` `and` or `or` | the entries |
    | matrix, row | | rows, entries |
    """

    kind: str
    args: tuple[Node, ...] = ()
    text: str = ""

    def walk(self) -> Iterator[Node]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def symbols(self) -> frozenset[str]:
        """Names of the free variables."""
        return frozenset(node.text for node in self.walk() if node.kind == "sym" and node.text not in CONSTANTS)


CONSTANTS = frozenset({"pi", "e", "i", "inf"})
