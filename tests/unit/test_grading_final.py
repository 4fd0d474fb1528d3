"""Where the final answer is read: boxes, markers, short responses; and choice and exact, which read it so."""

from __future__ import annotations

import pytest

from es_mpi.grading import make_grader
from es_mpi.grading.final import final_answer, reference
from es_mpi.types import Verdict


@pytest.mark.parametrize(
    ("response", "reading"),
    [
        (r"I think \boxed{4}. No: \boxed{5}", "5"),
        (r"<think>\boxed{4}</think> so \boxed{5}", "5"),
        (r"\boxed{4}</think>It is 5", "It is 5"),
        (r"\boxed{\frac{1}{2}} and more", r"\frac{1}{2}"),
        (r"\boxed{2}, \boxed{3}, and \boxed{5}", "2, 3, 5"),
        (r"$\boxed{2}$ and $\boxed{3}$", "2, 3"),
        (r"\boxed{(3, 3)} \text{ for part (a) and } \boxed{(1, 1)}", "(3, 3), (1, 1)"),
        ("so 3 * 2 + 1 = 7\n#### 7 dozen eggs in 4 weeks", "7 dozen eggs in 4 weeks"),
        ("x is 4\nA: 18", "18"),
        (r"\boxed{255} So the final answer is $10,455$. I hope it is correct.", "$10,455$"),
        (r"The answer is clear. So \boxed{5}", "5"),
        (r"\boxed{5}. The answer is correct.", "5"),
        ("The answer is 3.5 apples. Good.", "3.5 apples"),
        ("**Answer:** 42", "42"),
        ("28 percent", "28 percent"),
        (r"First \boxed{5} but actually \boxed{", None),
        (r"\boxed 5", None),
        ("", None),
        ("no number here\nat all", None),
        ("first 3 and\nthen 4 of them", "4"),
        ("a formula\n$x+1$ at last", "x+1"),
    ],
)
def test_reads_the_last_closed_box_or_marker(response: str, reading: str | None) -> None:
    found = final_answer(response)
    assert (found.readings[0].strip() if found else None) == reading


@pytest.mark.parametrize(
    ("response", "truncated", "verdict"),
    [
        (r"First \boxed{5} but actually \boxed{", False, Verdict.UNPARSED),
        (r"First \boxed{5} but actually \boxed{", True, Verdict.TRUNCATED),
        (r"\boxed{5}", True, Verdict.RIGHT),
        ("The answer is 5", True, Verdict.TRUNCATED),  # may have been the start of 50
        ("The answer is 5. So", True, Verdict.RIGHT),
        ("#### 5", True, Verdict.TRUNCATED),
        ("", True, Verdict.TRUNCATED),
        (r"I think \boxed{4}. No: \boxed{5}", False, Verdict.RIGHT),
        (r"\boxed{5} or \boxed{6}", False, Verdict.WRONG),  # a hedge is not the answer
        ("20 candles is #### -$5.00", False, Verdict.WRONG),
        ("#### 5 dozen eggs in 4 weeks", False, Verdict.RIGHT),
    ],
)
def test_verdicts_of_math_verify(response: str, truncated: bool, verdict: Verdict) -> None:
    assert make_grader("math_verify")(response, "5", truncated).verdict is verdict


def test_a_reference_may_stand_in_a_box_or_a_sentence() -> None:
    assert reference(r"Thus it is: \[ \boxed{(2, 12)} \]") == "(2, 12)"
    assert reference(r"$\frac12$") == r"$\frac12$"
    assert make_grader("math_verify")("#### 7", r"So \(\boxed{7}\).", False).verdict is Verdict.RIGHT


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (r"\boxed{B}", "B"), (r"\boxed{(b)}", "B"), (r"\boxed{\text{B}}", "B"), (r"\boxed{B. Paris}", "B"),
        ("Answer: B", "B"), ("The answer is (B).", "B"), ("A: C", "C"), (r"\boxed{\textbf{(C) } 42}", "C"),
        ("**Answer: B**", "B"), (r"\boxed{Bananas}", None), (r"\boxed{A or B}", None), (r"\boxed{}", None), ("B", "B"),
        ("Option B", "B"), ("I like bananas\nand more", None),
    ],
)  # fmt: skip
def test_choice_reads_one_letter(response: str, letter: str | None) -> None:
    grade = make_grader("choice")(response, "B", False)
    assert grade.extracted == letter
    assert grade.verdict is (Verdict.UNPARSED if letter is None else Verdict.RIGHT if letter == "B" else Verdict.WRONG)
    assert grade.reward == float(letter == "B")


def test_choice_takes_references_in_any_form() -> None:
    for gold in ("B", "(B)", "b", r"\text{(B)}", "B. Paris"):
        assert make_grader("choice")(r"\boxed{B}", gold, False).verdict is Verdict.RIGHT


def test_exact_is_letter_by_letter_but_for_spaces() -> None:
    grade = make_grader("exact")
    assert grade(r"\boxed{New  York}", "New York", False).verdict is Verdict.RIGHT
    assert grade(r"\boxed{new york}", "New York", False).verdict is Verdict.WRONG
    assert grade(r"\boxed{0.5}", "1/2", False).verdict is Verdict.WRONG
    assert grade(r"\boxed{0.5", "1/2", False).verdict is Verdict.UNPARSED
