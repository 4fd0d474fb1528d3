"""`countdown`: an expression that makes a target from given numbers, each used once.

Parsed by a grammar of its own and computed with exact fractions; nothing is evaluated as code, and there is no power.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from es_mpi.errors import UsageError
from es_mpi.grading.boxed import last_box
from es_mpi.grading.response import answer_part, judged, unanswered
from es_mpi.types import Grade, Verdict

FORMAT_WEIGHT = 0.1
THOUGHT_SCORE, ANSWER_SCORE = 0.1, 0.5  # of a format that is not whole
MAX_LENGTH = 300  # characters of an expression
MAX_DEPTH = 30
OPEN, CLOSE = "<answer>", "</answer>"
THINK, END_THINK = "<think>", "</think>"

_TOKEN = re.compile(r"\s*(?:([0-9]{1,9})|([-+*/()]))")
_SYMBOLS = str.maketrans({"×": "*", "÷": "/", "−": "-", "·": "*", "–": "-", "$": " ", "[": "(", "]": ")", "{": "(", "}": ")"})
_LATEX = ((r"\times", "*"), (r"\cdot", "*"), (r"\div", "/"), (r"\left", ""), (r"\right", ""))
_OPERATIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
}  # fmt: skip


class NotAnExpression(Exception):
    """The text is no expression of numbers, + - * / and brackets."""


def countdown(response: str, answer: str, truncated: bool) -> Grade:
    r"""1 for a right last <answer>...</answer> (or last \boxed{}), and 0.1 times `format_score`: the reward of arXiv 2509.24372.

    `answer` is JSON: {"numbers": [3, 3, 8, 8], "target": 24}. Every number must be used exactly once.
    """
    numbers, target = problem(answer)
    bonus = FORMAT_WEIGHT * format_score(response)
    said = _said(answer_part(response))
    if said is None:
        return unanswered(truncated, reward=bonus)
    try:
        value, used = evaluate(said)
    except (NotAnExpression, ZeroDivisionError):
        return judged(" ".join(said.split())[:MAX_LENGTH], False, wrong_reward=bonus)
    grade = judged("".join(said.split()), value == target and Counter(used) == Counter(numbers), wrong_reward=bonus)
    return replace(grade, reward=1 + bonus) if grade.verdict is Verdict.RIGHT else grade


def format_score(response: str) -> float:
    """1 for a thought, a line feed and an answer, each in its tags and nothing else; 0.1 and 0.5 for one of the two tags alone.

    A response without <think> begins inside of it, because the prompt may end there.
    """
    text = response if THINK in response else THINK + response
    middle = text.find(f"{END_THINK}\n{OPEN}")
    if text.startswith(THINK) and middle >= 0 and CLOSE in text[middle:] and text.removesuffix("\n").endswith(CLOSE):
        return 1.0
    thought = text.find(END_THINK, text.find(THINK)) >= 0
    answer = OPEN in text and text.find(CLOSE, text.find(OPEN)) >= 0
    return THOUGHT_SCORE * thought + ANSWER_SCORE * answer


def problem(answer: str) -> tuple[list[int], Fraction]:
    """Numbers and target of a reference. UsageError if it is no countdown problem."""
    try:
        row = json.loads(answer)
        return [int(number) for number in row["numbers"]], Fraction(row["target"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"no countdown problem ({type(error).__name__}: {error})",
            value=answer[:100], expected='{"numbers": [2, 3], "target": 5}', key="task.reward",
        ) from error  # fmt: skip


def _said(text: str) -> str | None:
    """The last closed answer; None if the last one that begins is never closed."""
    start = text.rfind(OPEN)
    if start < 0:
        return last_box(text)
    end = text.find(CLOSE, start)
    return text[start + len(OPEN) : end] if end >= 0 else None


def evaluate(text: str) -> tuple[Fraction, list[int]]:
    """The value of an expression and the numbers in it, in order. Raises NotAnExpression and ZeroDivisionError."""
    for latex, plain in _LATEX:
        text = text.replace(latex, plain)
    text = text.translate(_SYMBOLS).strip()
    reader = _Reader(_tokens(text))
    value = reader.sum()
    if reader.tokens:
        raise NotAnExpression(f"unexpected {reader.tokens[-1]!r}")
    return value, reader.used


def _tokens(text: str) -> list[str]:
    """The tokens in reverse, so that the next one is the last."""
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise NotAnExpression("too long")
    found: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotAnExpression(f"unexpected {text[place]!r}")
        found.append(match[1] or match[2])
        place = match.end()
    return found[::-1]


class _Reader:
    """Recursive descent over + - * / and brackets; two signs in a row, as in 2**3 and 3//2, are not an expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.used: list[int] = []
        self.depth = 0

    def sum(self) -> Fraction:
        return self._chain(self.product, "+-")

    def product(self) -> Fraction:
        return self._chain(self.factor, "*/")

    def factor(self) -> Fraction:
        if not self.tokens:
            raise NotAnExpression("ends too early")
        token = self.tokens.pop()
        if token.isdigit():
            self.used.append(int(token))
            return Fraction(int(token))
        self.depth += 1
        if token not in "(-" or self.depth > MAX_DEPTH:
            raise NotAnExpression(f"unexpected {token!r}")
        value = -self.factor() if token == "-" else self.sum()
        if token == "(" and (not self.tokens or self.tokens.pop() != ")"):
            raise NotAnExpression("a bracket is not closed")
        self.depth -= 1
        return value

    def _chain(self, part: Callable[[], Fraction], signs: str) -> Fraction:
        value = part()
        while self.tokens and self.tokens[-1] in signs:
            value = _OPERATIONS[self.tokens.pop()](value, part())
        return value


def solution(numbers: Sequence[int], target: Fraction) -> str | None:
    """An expression that solves the problem, or None. Tries all; meant for at most six numbers."""
    return _solve([(Fraction(n), str(n)) for n in numbers], target)


def _solve(terms: list[tuple[Fraction, str]], target: Fraction) -> str | None:
    if len(terms) == 1:
        return terms[0][1] if terms[0][0] == target else None
    for i, (a, left) in enumerate(terms):
        for j, (b, right) in enumerate(terms):
            if i == j:
                continue
            rest = [term for place, term in enumerate(terms) if place not in (i, j)]
            for sign, operation in _OPERATIONS.items():
                if (sign in "+*" and j < i) or (sign == "/" and b == 0):
                    continue
                if found := _solve([*rest, (operation(a, b), f"({left} {sign} {right})")], target):
                    return found
    return None


def solved(answer: str) -> str:
    """A response that solves the reference; one without an answer where nothing does."""
    return f"<answer>{solution(*problem(answer)) or ''}</answer>"
