"""A place in a list of tokens, and the small steps from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from es_mpi.grading.maths.lexer import Token
from es_mpi.grading.maths.node import MAX_DEPTH, MAX_OPERATIONS, Unreadable


class Cursor:
    """Where the parser is. Every step raises Unreadable where the text does not go on as expected."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.operations = 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    @property
    def following(self) -> Token:
        """The token behind this one; an empty one at the end."""
        return self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else Token("", "")

    def at(self, *texts: str) -> bool:
        return self.token is not None and self.token.kind in ("op", "sym") and self.token.text in texts

    def take(self) -> Token:
        token = self.token
        if token is None:
            raise Unreadable("ends too early")
        self.place += 1
        return token

    def accept(self, *texts: str) -> str:
        """Takes the token if it is one of `texts`; else takes nothing and returns nothing."""
        return self.take().text if self.at(*texts) else ""

    def expect(self, *texts: str) -> str:
        token = self.take()
        if token.text not in texts:
            raise Unreadable(f"expected {texts[0]}, found {token.text!r}")
        return token.text

    def count(self) -> None:
        """One operation more; Unreadable where they are too many."""
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise Unreadable("too many operations")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level further in; Unreadable where that is too many."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        yield
        self.depth -= 1
