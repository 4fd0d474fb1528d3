"""A member's score from the grades of its responses."""

from __future__ import annotations

import math

import pytest

from es_mpi.phases.context import Tally
from es_mpi.phases.es import score
from es_mpi.types import Grade, Member, MemberScore, Status, Verdict

RIGHT, WRONG = Grade(Verdict.RIGHT, 1.0, "7"), Grade(Verdict.WRONG, 0.1, "8")
TIMEOUT, ERROR = Grade(Verdict.TIMEOUT, 0.0), Grade(Verdict.ERROR, math.nan)
MEMBER = Member(3, 17)


@pytest.mark.parametrize(
    ("grades", "reward"),
    [
        ([RIGHT, WRONG], 0.55),
        ([RIGHT, TIMEOUT], 0.5),  # what cannot be graded in time earns nothing
        ([RIGHT] * 9 + [ERROR], 1.0),  # what the grader fails on does not count
        ([RIGHT] * 4 + [WRONG] * 5 + [ERROR], 0.5),
    ],
)
def test_the_mean_is_over_the_responses_that_could_be_graded(grades: list[Grade], reward: float) -> None:
    assert score(MEMBER, grades, 0.1, Tally()) == MemberScore(3, pytest.approx(reward))


@pytest.mark.parametrize(("grades", "max_errors"), [([RIGHT] * 8 + [ERROR] * 2, 0.1), ([RIGHT, ERROR], 0.0), ([ERROR], 1.0)])
def test_too_many_errors_fail_the_member(grades: list[Grade], max_errors: float) -> None:
    found = score(MEMBER, grades, max_errors, Tally())
    assert (found.member, found.status) == (3, Status.FAILED)
    assert math.isnan(found.reward)


def test_every_verdict_is_counted() -> None:
    tally = Tally()
    score(MEMBER, [RIGHT, RIGHT, WRONG, TIMEOUT, ERROR], 1.0, tally)
    assert tally.values == {"grade/right": 2, "grade/wrong": 1, "grade/timeout": 1, "grade/error": 1}
