"""A grader that cannot end a run: a user's own may raise anything."""

from __future__ import annotations

import math
from collections.abc import Callable

from es_mpi.grading.registry import Grader
from es_mpi.types import Grade, Verdict


def guarded(grader: Grader, note: Callable[[str], None]) -> Grader:
    """`grader`, whose exceptions, rewards that are not finite and other answers than a Grade become FAILED, each noted."""

    def grade(response: str, answer: str, truncated: bool) -> Grade:
        try:
            given = grader(response, answer, truncated)
            if not isinstance(given, Grade):
                raise TypeError(f"expected es_mpi.types.Grade, the grader returned {given!r}")
        except (Exception, SystemExit) as error:  # whatever it is: the member fails, not the run
            note(f"the grader raised {type(error).__name__}: {error}; reference answer {answer!r}, response {response[:200]!r}")
            return Grade(Verdict.FAILED, math.nan)
        if math.isfinite(given.reward):
            return given
        note(f"the grader gave reward {given.reward}; reference answer {answer!r}, response {response[:200]!r}")
        return Grade(Verdict.FAILED, math.nan, given.extracted)

    return grade
