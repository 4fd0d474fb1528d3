"""`math_verify`: the final answer compared as mathematics."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from es_mpi.grading.final import Found, final_answer, reference
from es_mpi.grading.library import says_same
from es_mpi.grading.maths.node import Node, Unreadable
from es_mpi.grading.maths.normal import normal
from es_mpi.grading.maths.parser import parse
from es_mpi.grading.maths.same import same
from es_mpi.grading.maths.words import UPRIGHT, spoken
from es_mpi.grading.response import judged, unanswered
from es_mpi.types import Grade

SHORTEST_WORD = 2  # letters: pi and xy are mathematics
_NUMBER = re.compile(r"-?[0-9]{1,100}(?:\.[0-9]{1,100})?")
_OPTION = re.compile(r"[\s$]*(?:\(([A-J])\)|([A-J])(?:\)|[.:](?=\s)|[\s$]*$))")


def math_verify(response: str, answer: str, truncated: bool) -> Grade:
    """Reward 1 where the final answer says what the reference says, else 0; docs/grading.md lists what counts as the same."""
    found = final_answer(response)
    if found is None or (truncated and found.open_end):
        return unanswered(truncated)
    text, node = _read(found)
    gold = _reference(answer)
    return judged(_normal(gold), True) if _right(gold, text, node) else judged(_normal(text), False)


@lru_cache(maxsize=4096)
def _reference(answer: str) -> str:
    return reference(answer)


def _read(found: Found) -> tuple[str, Node | None]:
    """The first reading that is a value, else the first at all; its tree, if it has one."""
    for text in found.readings:
        node = _tree(text)
        if node is not None and (node.kind != "text" or len(found.readings) == 1):
            return text, node
    return found.readings[0], _tree(found.readings[0])


def _tree(text: str) -> Node | None:
    try:
        return parse(text)
    except Unreadable:
        return None


def _right(gold: str, text: str, node: Node | None) -> bool:
    if _NUMBER.fullmatch(gold) and _NUMBER.fullmatch(text):
        return Fraction(gold) == Fraction(text)
    if (letter := _letter(gold)) and (given := _letter(text)):
        return letter == given
    if (said := spoken(gold)) is not None and said == spoken(text):
        return True
    mine = _tree(gold)
    if node is None or mine is None:
        return gold.split() == text.split() or says_same(gold, text)
    try:
        return same(mine, node)
    except Unreadable:  # too many entries or signs to compare
        return False


def _letter(text: str) -> str:
    """The letter of an option, which its text may follow: B, (B), B. 42; empty for anything else."""
    option = _OPTION.match(UPRIGHT.sub(r"\1", text))
    return (option[1] or option[2]) if option else ""


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return str(Fraction(text))
    if len(text) > SHORTEST_WORD and (said := spoken(text)):
        return ", ".join(said)
    try:
        return normal(parse(text))
    except (Unreadable, ArithmeticError):
        return " ".join(text.split())
