"""countdown: the reward's published values, exact arithmetic, and expressions that are none."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from es_mpi.errors import UsageError
from es_mpi.grading import make_grader
from es_mpi.grading.countdown import NotAnExpression, evaluate, solution
from es_mpi.types import Verdict

GOLD = json.dumps({"numbers": [3, 3, 8, 8], "target": 24})
RIGHT = "8/(3-8/3)"


def reward(response: str, answer: str = GOLD) -> float:
    return round(make_grader("countdown")(response, answer, False).reward, 6)


@pytest.mark.parametrize(
    ("response", "value"),  # of the reference function of arXiv 2509.24372, which puts <think> in front
    [
        (f"so</think>\n<answer>{RIGHT}</answer>", 1.1),
        (f"so</think>\n<answer>{RIGHT}</answer>\n", 1.1),
        (f"<think>so</think>\n<answer>{RIGHT}</answer>", 1.1),
        (f"so</think><answer>{RIGHT}</answer>", 1.06),
        (f"so</think>\n<answer>{RIGHT}</answer> done", 1.06),
        (f"so <answer>{RIGHT}</answer>", 1.05),
        ("so</think>\n<answer>8+8+3+3</answer>", 0.1),
        ("so</think>\n<answer>8*3</answer>", 0.1),
        (f"so</think>\n<answer>{RIGHT} = 24</answer>", 0.1),
        ("so</think>\n<answer>8/(3-3)</answer>", 0.1),
        (f"so</think>\n<answer>{RIGHT}</answer><answer>8</answer>", 0.1),
        ("so</think>", 0.01),
        ("so", 0.0),
        ("", 0.0),
    ],
)
def test_the_published_values(response: str, value: float) -> None:
    assert reward(response) == value


@pytest.mark.parametrize(
    ("numbers", "target", "said", "right"),
    [
        ([2, 3], 8, "2**3", False),
        ([2, 3], 1, "3//2", False),
        ([9, 9, 9, 9], 1, "9**9**9**9", False),
        ([3, 3, 8, 8], 24, "8/(3-8/3)", True),
        ([3, 3, 8, 8], 24, r"8 \div (3 - 8 \div 3)", True),
        ([1, 2], 3, "1+2", True),
        ([1, 2], 3, "1+2+2-2", False),
        ([1, 2], 3, "3", False),
        ([1, 2], 1, "-1+2", True),
        ([1, 2], 2, "(1)(2)", False),
        ([1, 3], 3, "1x3", False),
        ([1, 3], 3, "1×3", True),
        ([12], 12, "1 2", False),
        ([1, 2], 3, "1+2)", False),
        ([1, 2], 3, "(1+2", False),
        ([1, 2], 3, "__import__('os')", False),
        ([1, 2], 3, "1" * 10**6, False),
        ([1, 2], 3, "(" * 10**6, False),
        ([1, 2], 3, "", False),
    ],
)
def test_each_number_once_and_only_plain_operations(numbers: list[int], target: int, said: str, right: bool) -> None:
    answer = json.dumps({"numbers": numbers, "target": target})
    assert (make_grader("countdown")(f"<answer>{said}</answer>", answer, False).verdict is Verdict.RIGHT) is right
    assert (make_grader("countdown")(rf"\boxed{{{said}}}", answer, False).verdict is Verdict.RIGHT) is right


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=2, max_size=4), st.integers(1, 100))
def test_a_solution_found_is_graded_right(numbers: list[int], target: int) -> None:
    found = solution(numbers, Fraction(target))
    if found is not None:
        value, used = evaluate(found)
        assert (value, sorted(used)) == (target, sorted(numbers))


def test_what_is_solvable_is_found() -> None:
    assert solution([3, 3, 8, 8], Fraction(24))
    assert solution([1, 1], Fraction(3)) is None


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/() =", max_size=30))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    try:
        value, used = evaluate(text)
    except (NotAnExpression, ZeroDivisionError):
        return
    assert isinstance(value, Fraction)
    assert used


@pytest.mark.parametrize("answer", ["24", "{}", '{"numbers": 3, "target": 1}', '{"numbers": ["x"], "target": 1}', "not JSON"])
def test_a_reference_that_is_no_problem_is_bad_input(answer: str) -> None:
    with pytest.raises(UsageError) as error:
        make_grader("countdown")("<answer>1</answer>", answer, False)
    assert error.value.key == "task.reward"
