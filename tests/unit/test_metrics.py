"""Pass@K, Maj@K and Distinct-n against closed forms and worked cases."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from es_mpi.evaluation.metrics import distinct_n, maj_at_k, majority, pass_at_k, sample_metrics
from es_mpi.grading import make_grader
from es_mpi.types import Verdict


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (5, 2, 2, Fraction(7, 10)),
        (5, 2, 1, Fraction(2, 5)),
        (10, 3, 5, Fraction(11, 12)),
        (4, 4, 1, 1),
        (4, 0, 4, 0),
        (6, 1, 3, Fraction(1, 2)),
        (32, 1, 16, Fraction(1, 2)),
        (32, 2, 16, Fraction(47, 62)),
        (32, 3, 16, Fraction(55, 62)),
        (32, 8, 16, Fraction(8979, 8990)),
        (32, 16, 16, Fraction(601080389, 601080390)),
        (32, 17, 16, 1),
        (32, 1, 32, 1),
        (32, 0, 32, 0),
        (64, 3, 32, Fraction("0.88095238")),
    ],
)
def test_pass_at_k_values(n: int, c: int, k: int, value: Fraction) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(float(value), abs=1e-9 if n < 64 else 1e-8)


@settings(deadline=None)
@given(st.integers(1, 9), st.data())
def test_pass_at_k_counts_the_draws_that_hold_a_right_sample(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


@pytest.mark.parametrize(("n", "k", "p"), [(4, 2, 0.3), (32, 16, 0.3), (10, 10, 0.01)])
def test_pass_at_k_is_unbiased(n: int, k: int, p: float) -> None:
    mean = sum(comb(n, c) * p**c * (1 - p) ** (n - c) * pass_at_k(n, c, k) for c in range(n + 1))
    assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-9)


def test_pass_at_k_of_very_many_samples() -> None:
    assert pass_at_k(100_000, 1, 50_000) == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(2, 0, 5), (2, 3, 1), (2, -1, 1), (2, 1, 0), (0, 0, 1)])
def test_pass_at_k_refuses_what_the_samples_cannot_say(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} of {n}"):
        pass_at_k(n, c, k)


@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        ("ABBA", "A"),
        ([None, "B", None], "B"),
        ([None, None], None),
        (["1024", "7", "1024"], "1024"),
        ("BAABC", "B"),
        (["", ""], None),
    ],
)
def test_majority(answers: list[str | None], winner: str | None) -> None:
    index = majority(list(answers))
    assert (None if index is None else answers[index]) == winner
    assert index is None or index == list(answers).index(winner)


def votes(responses: list[str], gold: str) -> bool:
    grades = [make_grader("boxed_string")(response, gold, False) for response in responses]
    return maj_at_k([g.extracted for g in grades], [g.verdict == Verdict.RIGHT for g in grades], len(grades))


def test_equivalent_answers_vote_together_and_blanks_abstain() -> None:
    boxes = [rf"\boxed{{{answer}}}" for answer in (".5", "1/2", ".5", "1/2", "2", "2", "2")]
    assert votes(boxes, "1/2")
    assert not votes(boxes, "2")
    assert votes(["", r"\boxed{}", r"\boxed{", r"\boxed{7}", r"\boxed{7}"], "7")
    assert not votes(["", "", ""], "7")


def test_maj_at_k_reads_only_the_first_k() -> None:
    answers, right = ["1", "2", "2"], [True, False, False]
    assert [maj_at_k(answers, right, k) for k in (1, 2, 3)] == [True, True, False]
    for k in (0, 4):
        with pytest.raises(ValueError, match=f"maj@{k} of 3"):
            maj_at_k(answers, right, k)


def test_table_keeps_problems_apart_and_says_what_is_not_available() -> None:
    right = np.zeros((4, 32), dtype=bool)
    for problem, count in enumerate([0, 1, 5, 32]):
        right[problem, :count] = True
    answers = [["18" if flag else None for flag in row] for row in right]
    table = sample_metrics(right, answers, [16, 32, 64])
    means = {name: None if values is None else values.mean() for name, values in table.items()}
    assert list(table) == ["pass@1", "pass@16", "maj@16", "pass@32", "maj@32", "pass@64", "maj@64"]
    assert means["pass@1"] == pytest.approx(0.296875, abs=1e-9)
    assert means["pass@16"] == pytest.approx(0.6195773081201335, abs=1e-9)
    assert means["pass@32"] == 0.75
    assert means["maj@32"] == 0.75
    assert means["pass@64"] is means["maj@64"] is None


def test_one_greedy_sample_gives_the_accuracy() -> None:
    table = sample_metrics(np.array([[True], [False], [True]]), [["1"], [None], ["1"]], [])
    assert list(table) == ["pass@1"]
    assert table["pass@1"] is not None
    assert table["pass@1"].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("samples", "value"),
    [
        (["a b c d e f", "a b c d x y"], 5 / 6),
        (["a b c d e"] * 3, 2 / 6),
        (["a b c"], 0.0),
        (["a a a a a a"], 1 / 3),
        ([], 0.0),
    ],
)
def test_distinct_4(samples: list[str], value: float) -> None:
    assert distinct_n([sample.split() for sample in samples]) == pytest.approx(value, abs=1e-9)


def test_distinct_n_of_token_ids() -> None:
    assert distinct_n([(1, 2, 1, 2)], n=2) == pytest.approx(2 / 3, abs=1e-9)
