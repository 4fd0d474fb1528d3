"""Floods of anything are graded in linear time.

The argument is in the code: patterns in which no two neighbouring repeats share characters, single scans elsewhere.
The tests hold it to that: a quadratic grader would need some 10^11 steps for a flood, and meet the time limit.
"""

from __future__ import annotations

import pytest

from es_mpi.grading import GRADERS, make_grader
from es_mpi.types import Verdict

LONG, MEGABYTE = 400_000, 1_000_000
PIECES = [
    "9", "0", "1,111", "1/0", "1/2", "1.", ".1", "-", "-$", "1e", "1^", "####", "#### 1", "=", "x=", "-1,",
    "{", "}", "\\", "\\\\", r"\{", r"\boxed", r"\boxed{", r"\boxed{}", r"\boxed{1}", r"\text{ ", r"\text{ m}", r"\text{ m}^",
    r"\frac", r"\frac{1}", r"\frac1", r"\frac{", r"\sqrt", r"\left", "<think>", "</think>", " ", "\n", "\t ", "^{\\circ",
    "\u2212",
]  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", PIECES)
def test_a_flood_of_any_piece_is_graded_at_once(piece: str) -> None:
    assert_never_right(piece * (LONG // len(piece)))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["9", "{", r"\boxed{", "1,111"])
def test_a_megabyte_is_graded_at_once(piece: str) -> None:
    assert_never_right(piece * (MEGABYTE // len(piece)))


def assert_never_right(flood: str) -> None:
    for name, responses in {
        "boxed_string": [rf"\boxed{{{flood}", rf"\boxed{{{flood}}}"],
        "last_number": [flood, f"#### {flood}"],
        "first_line": [flood],
        "math_verify": [rf"\boxed{{{flood}", rf"\boxed{{{flood}}}", flood],
        "choice": [flood],
        "exact": [flood],
    }.items():
        for response in responses:
            assert make_grader(name)(response, "18", False).verdict != Verdict.RIGHT


@pytest.mark.parametrize("name", sorted(set(GRADERS) - {"choice", "countdown", "reasoning_gym"}))
def test_a_flood_before_the_answer_does_not_hide_it(name: str) -> None:
    answer = "18" if name == "first_line" else "9 { " * 250_000 + r"\boxed{18}"
    assert make_grader(name)(answer, "18", False).verdict == Verdict.RIGHT


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "<think>", "</think>", "<answer>1</answer>", "(", "1+", "{"])
def test_a_flood_is_no_countdown_answer(piece: str) -> None:
    grade = make_grader("countdown")
    for response in (piece * (MEGABYTE // len(piece)), f"<answer>{piece * (LONG // len(piece))}</answer>"):
        assert grade(response, '{"numbers": [3, 6], "target": 18}', False).verdict != Verdict.RIGHT


def test_nothing_is_evaluated() -> None:
    for text in ("9**9**9**9", "__import__('os').abort()", "9" * 5000 + "/7", "1/" + "0" * 5000):
        assert make_grader("last_number")(text, "18", False).verdict != Verdict.RIGHT
