r"""boxed_string against the paper's reward table, row by row, and against what must never pass."""

from __future__ import annotations

import pytest

from es_mpi.grading import make_grader
from es_mpi.grading.boxed import last_box
from es_mpi.grading.latex import normalise
from es_mpi.types import Verdict

boxed = make_grader("boxed_string")

TABLE = [  # response, reference, reward
    (r"so \boxed{18}", "18", 1.0),
    (r"so \boxed{19}", "18", 0.1),
    (r"so \boxed{18.0}", "18", 0.1),
    (r"so \boxed{$18}", "18", 0.1),
    (r"so \boxed{\$18}", "18", 1.0),
    (r"so \boxed{18 cm}", "18", 0.1),
    (r"so \boxed{1,024}", "1024", 0.1),
    (r"so \boxed{18\text{ cm}}", "18", 1.0),
    (r"so \boxed{18\text{ cm}^2}", "18", 1.0),
    (r"so \boxed{18\%}", "18", 1.0),
    (r"so \boxed{x=18}", "18", 1.0),
    (r"so \boxed{f(x)=18}", "18", 0.1),
    (r"so \boxed{0.5}", r"\frac{1}{2}", 1.0),
    (r"so \boxed{.5}", r"\frac{1}{2}", 1.0),
    (r"so \boxed{1/2}", r"\frac{1}{2}", 1.0),
    (r"so \boxed{\frac12}", r"\frac{1}{2}", 1.0),
    (r"so \boxed{\dfrac{1}{2}}", r"\frac{1}{2}", 1.0),
    (r"so \boxed{-0.5}", "-1/2", 0.1),
    (r"so \boxed{90^\circ}", "90", 1.0),
    (r"so \boxed{\left( 3, \frac{\pi}{2} \right)}", r"(3,\frac{\pi}{2})", 1.0),
    (r"so \boxed{\sqrt3}", r"\sqrt{3}", 1.0),
    (r"so \boxed{}", "18", 0.1),
    (r"so \boxed{18", "18", 0.0),
    (r"so \boxed 18", "18", 0.0),
    ("The answer is 18.", "18", 0.0),
]


@pytest.mark.parametrize(("response", "answer", "reward"), TABLE)
def test_reward_table_of_the_paper(response: str, answer: str, reward: float) -> None:
    assert boxed(response, answer, False).reward == reward


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        (r"I think \boxed{4}. No: \boxed{5}", Verdict.RIGHT),
        (r"First \boxed{5} but actually \boxed{", Verdict.UNPARSED),
        (r"\boxed{5} or \boxed 5", Verdict.UNPARSED),
        (r"\boxed{\boxed{5}}", Verdict.RIGHT),
        (r"<think>\boxed{4}</think> So \boxed{5}", Verdict.RIGHT),
        (r"<think>\boxed{5}</think> So it is five.", Verdict.UNPARSED),
        (r"\boxedtext{5}", Verdict.UNPARSED),
        (r"\boxed{4}", Verdict.WRONG),
        (r"\boxed{ }", Verdict.UNPARSED),
    ],
)
def test_the_last_closed_box_of_the_answer_counts(response: str, verdict: Verdict) -> None:
    assert boxed(response, "5", False).verdict == verdict


def test_a_cut_response_is_judged_on_its_closed_box_and_is_truncated_without_one() -> None:
    assert boxed(r"\boxed{5} and so", "5", True).verdict == Verdict.RIGHT
    assert boxed(r"\boxed{5", "5", True).verdict == Verdict.TRUNCATED
    assert boxed("so far", "5", True).reward == 0.0


def test_the_strict_variant_pays_nothing_for_an_empty_box_only() -> None:
    strict = make_grader("boxed_string_strict")
    assert strict(r"\boxed{}", "18", False).reward == 0.0
    assert strict(r"\boxed{19}", "18", False).reward == 0.1
    assert strict(r"\boxed{18}", "18", False).reward == 1.0


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("", r"\text{ even}"),  # nothing but a unit: not stripped to the empty text
        (r"\text{ odd}", r"\text{ even}"),
        (r"2 \text{ or } 3", "2"),
        ("1/2^{98}", "1/2^{99}"),
        (r"\leftarrow", "arrow"),
    ],
)
def test_different_answers_stay_different(given: str, answer: str) -> None:
    assert boxed(rf"\boxed{{{given}}}", answer, False).verdict != Verdict.RIGHT


def test_an_answer_that_looks_like_a_unit_is_not_stripped_to_nothing() -> None:
    assert boxed(r"\boxed{\text{ even}}", r"\text{ even}", False).verdict == Verdict.RIGHT


def test_box_content_keeps_nested_and_escaped_braces() -> None:
    assert last_box(r"a \boxed{\{1, \frac{1}{2}\}} b") == r"\{1, \frac{1}{2}\}"
    assert last_box(r"\boxed{\left\{ x \right.}") == r"\left\{ x \right."
    assert last_box(r"\boxed {7}") == "7"


def test_extracted_answers_are_in_normal_form_so_that_equals_vote_together() -> None:
    assert {boxed(rf"\boxed{{{given}}}", "1", False).extracted for given in (".5", "1/2", r"\tfrac12")} == {r"\frac{1}{2}"}
    assert boxed(r"\boxed{}", "1", False).extracted is None
    assert normalise(r" 10\,\text{ apples}") == r"10\,"
