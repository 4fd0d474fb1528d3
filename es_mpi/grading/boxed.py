r"""`boxed_string`: the last \boxed{...}, compared as a normalised string (the training reward of the ES paper)."""

from __future__ import annotations

import re

from es_mpi.grading.latex import normalise
from es_mpi.grading.response import answer_part, judged, unanswered
from es_mpi.types import Grade

BOX = r"\boxed"
FORMAT_REWARD = 0.1

_OPEN = re.compile(r"\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace is text, so the escape is read along with it


def boxed_string(response: str, answer: str, truncated: bool, *, empty_box: float = FORMAT_REWARD) -> Grade:
    r"""Reward 1 for the right last \boxed{}, 0.1 for another one, 0 for none; verdict `unparsed` if the box is empty.

    `empty_box` is the reward of an empty box: the paper pays for it as for any other box, which can be gamed. Unlike
    the paper, only what follows `</think>` is read, and a unit alone is never stripped to nothing.
    """
    content = last_box(answer_part(response))
    if content is None:
        return unanswered(truncated)
    given = normalise(content)
    if not given:
        return unanswered(truncated, reward=empty_box)
    return judged(given, given == normalise(answer), wrong_reward=FORMAT_REWARD)


def last_box(text: str) -> str | None:
    r"""What stands in the last \boxed{...}; None if there is no box, or if the last one is never closed.

    An earlier box does not count then: the response took it back. One scan, linear in the text.
    """
    last = text.rfind(BOX)
    opening = _OPEN.match(text, last + len(BOX))
    if last < 0 or opening is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(text, opening.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[opening.end() : brace.start()]
    return None
