"""A grader that cannot end a run: a user's own may raise or return anything."""

from __future__ import annotations

import math
from collections.abc import Callable

from es_mpi.grading.registry import Grader
from es_mpi.types import Grade, Verdict

RETURNS = "a number, or es_mpi.types.Grade(verdict, reward, extracted)"


def guarded(grader: Grader, note: Callable[[str], None]) -> Grader:
    """`grader`, whose exceptions, rewards that are not finite and answers of other types become ERROR, each noted.

    A plain number is taken for the reward, and for right where it is at least 1.
    """

    def grade(response: str, answer: str, truncated: bool) -> Grade:
        try:
            given = as_grade(grader(response, answer, truncated))
        except (Exception, SystemExit) as error:  # whatever it is: the sample is lost, not the run
            note(f"the grader raised {type(error).__name__}: {error}; reference answer {answer!r}, response {response[:200]!r}")
            return Grade(Verdict.ERROR, math.nan)
        if math.isfinite(given.reward):
            return given
        note(f"the grader gave reward {given.reward}; reference answer {answer!r}, response {response[:200]!r}")
        return Grade(Verdict.ERROR, math.nan, given.extracted)

    return grade


def as_grade(given: object) -> Grade:
    """What a reward function returned as a Grade. TypeError if it can be none."""
    if isinstance(given, Grade):
        return given
    if isinstance(given, int | float):
        return Grade(Verdict.RIGHT if given >= 1 else Verdict.WRONG, float(given))
    raise TypeError(f"a reward function returns {RETURNS}; this one returned {given!r:.200}")
