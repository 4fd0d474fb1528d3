"""Before training: does the grader accept each reference answer for itself? One it does not can never be learnt."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from es_mpi.errors import UsageError
from es_mpi.grading.guarded import RETURNS, as_grade, guarded
from es_mpi.grading.registry import find_grader
from es_mpi.types import Problem, Verdict

SHOWN = 10


def rejected(problems: Sequence[Problem], reward: str) -> list[Problem]:
    """The problems whose reference answer, given as a response, is not graded right; none for a grader that cannot be asked.

    Reference answers are the user's own, so they are graded here and not in processes with limits.
    """
    entry = find_grader(reward)
    if entry.respond is None:
        return []
    respond, grade = entry.respond, guarded(entry.grade, lambda text: None)
    return [p for p in problems if grade(respond(p.answer), p.answer, False).verdict is not Verdict.RIGHT]


def try_out(reward: str, problem: Problem) -> None:
    """Calls a user's own reward once, on a reference answer as the response. UsageError with file and line if that breaks."""
    if ":" not in reward:
        return
    try:
        as_grade(find_grader(reward).grade(problem.answer, problem.answer, False))
    except (Exception, SystemExit) as error:  # whatever a user's code raises
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"the reward {reward} breaks on its first trial, {where.filename}, line {where.lineno}",
            value=f"{type(error).__name__}: {error}",
            expected=f"a function of (response, answer, truncated) that returns {RETURNS}",
            key="task.reward",
            remedy=f"it was called with {(problem.answer[:50], problem.answer[:50], False)}",
        ) from error


def gradable(problems: list[Problem], reward: str, bad_answers: str) -> tuple[list[Problem], list[str]]:
    """The problems to train on, and a note if some were dropped. Raises UsageError for rejected ones if the config says stop,
    and for a reward of the user's own that breaks on its first trial."""
    try_out(reward, problems[0])
    bad = rejected(problems, reward)
    if not bad:
        return problems, []
    listed = "\n".join(f"    {p.id}: {p.answer[:80]!r}" for p in bad[:SHOWN])
    more = f"\n    and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    what = f"the reward {reward} rejects {len(bad)} of {len(problems)} reference answers\n{listed}{more}"
    if bad_answers == "stop":
        raise UsageError(
            what, key="task.reward", remedy="choose another reward, mend the data, or leave them out: grading.bad_answers=drop"
        )
    dropped = {p.id for p in bad}
    return [p for p in problems if p.id not in dropped], [f"{what}\n  they are left out (grading.bad_answers=drop)"]
