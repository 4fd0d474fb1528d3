"""last_number: what counts as a number, where it is read, and exact comparison."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from es_mpi.errors import UsageError
from es_mpi.grading import make_grader
from es_mpi.grading.number import read_number
from es_mpi.types import Verdict

last_number = make_grader("last_number")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It is 18.", 18),
        ("3 + 4 = 7 apples", 7),
        ("1,024", 1024),
        ("1,234,567.50 dollars", Fraction("1234567.5")),
        ("12,40,7", 7),
        ("$160", 160),
        ("US$5", 5),
        ("-$160.00", -160),
        ("$-160", -160),
        (r"\$18", 18),
        ("\u22125", -5),
        ("x=-5", -5),
        ("10-7", 7),
        ("2 - 3", 3),
        ("GPT-4", 4),
        (".75", Fraction(3, 4)),
        ("3/4", Fraction(3, 4)),
        (r"\frac{7}{2}", Fraction(7, 2)),
        ("18.0", 18),
        ("007", 7),
        ("50%", 50),
        ("**42**", 42),
        (r"\(x = 42\)", 42),
        ("18 m^2 and 18 s^{-1}", 18),
        ("18 s^-1", 18),
        ("9 H2O", 9),
        ("1/0", 0),  # not a fraction: two numbers
        ("10^6", None),
        ("1e6", None),
        ("none", None),
        ("", None),
        ("9" * 101, None),
    ],
)
def test_reads_the_last_number(text: str, number: Fraction | int | None) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    ("response", "answer", "verdict"),
    [
        ("so 3 * 2 + 1 = 7\n#### 7 dozen eggs in 4 weeks", "7", Verdict.RIGHT),
        ("20 candles is #### -$160.00", "20", Verdict.WRONG),
        ("20 candles is #### -$160.00", "-160", Verdict.RIGHT),
        ("#### 4\nwait\n#### 5", "5", Verdict.RIGHT),
        ("so 5 ####", "5", Verdict.UNPARSED),
        ("<think>9 or 8</think> It is 5, I am sure", "5", Verdict.RIGHT),
        ("<think>5</think> I am sure", "5", Verdict.UNPARSED),
        ("1,024", "1024", Verdict.RIGHT),
        ("1024", "1,024", Verdict.RIGHT),
        ("10^6", "10", Verdict.UNPARSED),
        ("3/4", "4", Verdict.WRONG),
        ("0.1000000000000000055511151231257827", "0.1", Verdict.WRONG),  # equal as floats
    ],
)
def test_where_it_reads_and_exact_comparison(response: str, answer: str, verdict: Verdict) -> None:
    grade = last_number(response, answer, False)
    assert grade.verdict == verdict
    assert grade.reward == float(verdict == Verdict.RIGHT)


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("it is 5 and", Verdict.RIGHT),
        ("it is 5.\n", Verdict.RIGHT),
        ("it is 5", Verdict.TRUNCATED),  # may have been the start of 50
        ("it is 5.", Verdict.TRUNCATED),  # ... or of 5.5
        ("it is 5,", Verdict.TRUNCATED),
        ("I think", Verdict.TRUNCATED),
    ],
)
def test_a_cut_response_is_judged_only_on_a_finished_number(response: str, verdict: Verdict) -> None:
    assert last_number(response, "5", True).verdict == verdict


def test_equal_numbers_extract_to_equal_texts() -> None:
    assert {last_number(text, "1", False).extracted for text in ("0.50", "1/2", ".5")} == {"1/2"}
    assert last_number("#### -$1,160.00.", "1", False).extracted == "-1160"


def test_a_reference_that_is_no_number_is_an_error_not_a_wrong_answer() -> None:
    with pytest.raises(UsageError, match=r"task\.reward.*\n.*'\(B\)'"):
        last_number("5", "(B)", False)


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "so {}.", "= {} eggs", "${}", "**{}**", "{:,}", "#### {:,} of 3"]))
def test_any_integer_in_any_dress(n: int, dress: str) -> None:
    assert last_number(dress.format(n), str(n), False).verdict == Verdict.RIGHT
    assert last_number(dress.format(n), str(n + 1), False).verdict == Verdict.WRONG


@settings(deadline=None)
@given(st.text(alphabet="0123456789.,-/$^e{}#\\ x", max_size=40))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    number = read_number(text)
    assert number is None or read_number(str(number)) == number
