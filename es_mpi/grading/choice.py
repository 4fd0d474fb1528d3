"""`choice`: the letter of an option."""

from __future__ import annotations

import re

from es_mpi.grading.final import final_answer
from es_mpi.grading.maths.words import UPRIGHT
from es_mpi.grading.response import judged, unanswered
from es_mpi.types import Grade

_LETTER = re.compile(r"[\s$*(\[]*(?:(?:option|choice)\s+)?\(?([A-Za-z])(?:[\s$*]*\)|[.:]|[\s$*]*$|\s+[-\u2013])", re.IGNORECASE)


def choice(response: str, answer: str, truncated: bool) -> Grade:
    r"""Right where the final answer names the option `answer`: B, (b), B. Paris, \text{B}. Reward 1, else 0.

    `extracted` is the letter. More than one option, or words without a letter, are no answer.
    """
    found = final_answer(response)
    if found is None or (truncated and found.open_end):
        return unanswered(truncated)
    letter = option(found.readings[0])
    return unanswered(truncated) if letter is None else judged(letter, letter == (option(answer) or answer.strip()))


def option(text: str) -> str | None:
    """The letter that `text` begins with, in upper case; None if it names no option."""
    match = _LETTER.match(UPRIGHT.sub(r"\1", text))
    return match[1].upper() if match else None
