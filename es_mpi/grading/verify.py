"""`math_verify`: the final answer compared as mathematics."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from es_mpi.grading.final import Found, final_answer, reference
from es_mpi.grading.library import says_same
from es_mpi.grading.maths import Node, Unreadable, parse, same
from es_mpi.grading.maths.normal import normal
from es_mpi.grading.maths.words import spoken
from es_mpi.grading.response import judged, unanswered
from es_mpi.types import Grade

_NUMBER = re.compile(r"-?[0-9]{1,100}(?:\.[0-9]{1,100})?")
_OPTION = re.compile(r"\(?([A-J])(?:\)|[.:](?=\s)|$)")


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
    if re.fullmatch("[A-J]", gold) and (option := _OPTION.match(text)):
        return option[1] == gold
    if (said := spoken(gold)) is not None and said == spoken(text):
        return True
    mine = _tree(gold)
    if node is None or mine is None:
        return gold.split() == text.split() or says_same(gold, text)
    return same(mine, node)


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return str(Fraction(text))
    try:
        return normal(parse(text))
    except (Unreadable, ArithmeticError):
        return " ".join(text.split())
