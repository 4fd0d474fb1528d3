"""Tests and intervals of differences, against tables, brute force and simulation."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from es_mpi.evaluation.significance import difference_over_seeds, holm, over_seeds, permutation_p, t_quantile
from es_mpi.evaluation.statistics import Interval, paired_difference


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (5, 2.57058), (10, 2.22814), (29, 2.04523), (30, 2.04227)],
)
def test_students_t_as_in_the_tables(freedom: int, t: float) -> None:
    assert t_quantile(freedom) == pytest.approx(t, abs=1e-4)


def test_exact_p_is_that_of_all_sign_patterns() -> None:
    d = [0.5, -0.25, 0.125, 0.75, 0.0, -0.1]
    patterns = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=len(d))]
    assert permutation_p(d, 0) == pytest.approx(np.mean([p >= abs(sum(d)) - 1e-12 for p in patterns]))


def test_yes_or_no_differences_are_mcnemars_exact_test() -> None:
    assert permutation_p([1.0] * 8 + [-1.0] * 2 + [0.0] * 50, 0) == pytest.approx(2 * sum(comb(10, i) for i in range(3)) / 2**10)
    assert permutation_p([1.0] * 3 + [-1.0] * 3, 0) == 1.0


def test_nothing_that_differs_is_no_evidence_and_p_is_never_zero() -> None:
    assert permutation_p([0.0, 0.0], 0) == 1.0
    rng = np.random.default_rng(0)
    assert permutation_p(rng.normal(5, 1, 100), 0) == pytest.approx(1 / 20_001)
    assert permutation_p([1.0] * 2000, 0) < 1e-300


def test_drawn_p_agrees_with_the_exact_one_and_is_the_same_every_time() -> None:
    d = np.random.default_rng(1).normal(0.4, 1, 16)
    exact = permutation_p(d, 0)
    drawn = permutation_p(np.concatenate([d, [1e-9]]), 0)  # 17 differences: drawn
    assert drawn == pytest.approx(exact, abs=0.02)
    assert drawn == permutation_p(np.concatenate([d, [1e-9]]), 0)


def test_false_alarms_are_as_rare_as_they_should_be() -> None:
    rng = np.random.default_rng(2)
    alarms = sum(permutation_p(rng.standard_t(3, 40) / 8, trial) <= 0.05 for trial in range(150))
    assert alarms / 150 < 0.1


def test_holm() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_seeds() -> None:
    assert over_seeds([0.5]) is None and difference_over_seeds([0.5, 0.6], [0.4]) is None
    found = over_seeds([0.1, 0.2, 0.3])
    assert found is not None
    half = 4.30265 * 0.1 / 3**0.5
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half), abs=1e-5)
    welch = difference_over_seeds([0.1, 0.3, 0.2], [0.5, 0.45, 0.55])
    assert welch is not None and welch.mean == pytest.approx(0.3)
    assert welch.low < 0.3 - 2.77645 * (0.01 / 3 + 0.0025 / 3) ** 0.5  # wider than with pooled degrees of freedom
    assert difference_over_seeds([0.2, 0.2], [0.3, 0.3]) == Interval(*[pytest.approx(0.1)] * 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["greedy", "pass@1"])
def test_intervals_of_differences_cover_the_truth(kind: str) -> None:
    """Two models on 200 problems of unequal difficulty, the second better by .05 on each: 93 to 97 % of 1000 data sets."""
    rng = np.random.default_rng(5)
    covered, trials = 0, 1000
    for trial in range(trials):
        p = rng.beta(1, 2, 200) * 0.9
        n = 1 if kind == "greedy" else 16
        a, b = rng.binomial(n, p) / n, rng.binomial(n, p + 0.05) / n
        found = paired_difference(a, b, seed=trial)
        covered += found.low <= 0.05 <= found.high
    assert 0.93 <= covered / trials <= 0.97
