"""`last_number`: the last number of a response, or the first one after a `####` marker, compared exactly."""

from __future__ import annotations

import re
from collections import deque
from fractions import Fraction

from es_mpi.errors import UsageError
from es_mpi.grading.response import answer_part, judged, unanswered
from es_mpi.types import Grade

MARKER = "####"
MAX_LENGTH = 100  # characters; a longer run of digits is a model in a loop, and costs more than linear time to convert

# No number starts inside a word (H2O), an exponent (cm^2, s^{-1}) or another number. A minus that follows a term is
# an operator (10-7); U+2212 is the typographic minus. `tail` marks powers and scientific notation, where the number in
# front is not the value.
_NUMBER = re.compile(
    r"""(?:(?<![\w)\]}.])(?P<sign>[-\u2212])(?:\\?[$€£¥])?)?
        (?<![\w.^])(?<!\^\{)(?<!\^[-\u2212])(?<!\^\{[-\u2212])
        (?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:/0*[1-9][0-9]*|\.[0-9]+)?|\.[0-9]+)
        (?P<tail>\^|[eE][-+]?[0-9])?""",
    re.VERBOSE,
)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}")
_UNFINISHED = ("", ".", ",", "/")  # what may follow a number that the cap cut off: 18. may have been 18.5


def last_number(response: str, answer: str, truncated: bool) -> Grade:
    """Right when the number read equals that of `answer` as an exact fraction: reward 1, else 0.

    Commas, signs, currency and a trailing period are understood; units and words around the number do not matter.
    Raises UsageError if `answer` is not a number.
    """
    reference = read_number(answer)
    if reference is None:
        raise UsageError(
            "the reward last_number needs numbers as reference answers",
            value=answer,
            key="task.reward",
            remedy="choose another reward, or drop the problem",
        )
    number = read_number(answer_part(response), truncated=truncated)
    return unanswered(truncated) if number is None else judged(str(number), number == reference)


def read_number(text: str, *, truncated: bool = False) -> Fraction | None:
    """The first number after the last `####`, or the last number where there is no such marker.

    None if there is none, if it is not a plain number (10^6, 1e6, over 100 characters), or if it was cut off.
    """
    _, marker, text = _LATEX_FRACTION.sub(r"\1/\2", text).rpartition(MARKER)
    numbers = _NUMBER.finditer(text)
    match = next(numbers, None) if marker else next(iter(deque(numbers, maxlen=1)), None)
    if match is None or match["tail"] or len(match["digits"]) > MAX_LENGTH:
        return None
    if truncated and text[match.end() :] in _UNFINISHED:
        return None
    value = Fraction(match["digits"].replace(",", ""))
    return -value if match["sign"] else value
