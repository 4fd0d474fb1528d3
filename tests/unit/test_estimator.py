"""Rewards to update terms, against values worked out by hand or with exact fractions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from es_mpi.estimator import TooFewMembers, centered_rank, estimate, shape_pairs, zscore
from es_mpi.population import members, share
from es_mpi.types import Member, MemberScore, Status


def run(rewards, *, estimator="one_point", shaping="zscore", alpha=1.0, min_valid=0.5):
    population = members(7, 3, len(rewards), estimator)
    scores = [
        MemberScore(i, r if r is not None else math.nan, Status.OK if r is not None else Status.FAILED)
        for i, r in enumerate(rewards)
    ]
    options = {"estimator": estimator, "shaping": shaping, "alpha": alpha, "min_valid": min_valid}
    return population, estimate(population, scores, **options)


def test_zscore_known_values():
    expected = [-1.11116776533, -0.202030502788, 1.31319826812]
    np.testing.assert_allclose(zscore(np.array([0.1, 0.4, 0.9])), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(zscore(np.array([1.0, 0.0])), [0.99999998, -0.99999998], rtol=0, atol=1e-9)


def test_one_flipped_answer_among_32():
    z = zscore(np.array([0.5] * 31 + [0.5 + 1 / 64]))
    assert z[-1] == pytest.approx(5.567743882905, abs=1e-9)
    assert z[0] == pytest.approx(-0.179604641384, abs=1e-9)


@pytest.mark.parametrize("value", [0.1, float(np.float32(0.1)), 0.0, 1.0])
def test_equal_rewards_give_no_update_at_all(value):
    _, result = run([value] * 30)
    assert result.terms == () and result.degenerate


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.3, -1, 2], [0, -0.5, 0.5]),
        ([1, 1, 0], [0.25, 0.25, -0.5]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([0, 0, 1, 0], [-1 / 6, -1 / 6, 1 / 2, -1 / 6]),
    ],
)
def test_centered_ranks_share_ties(rewards, expected):
    np.testing.assert_allclose(centered_rank(np.array(rewards, dtype=float)), expected, atol=1e-12)


def test_one_point_terms_are_alpha_over_n_times_z():
    population, result = run([1.0, 0.0], alpha=0.1)
    assert [t.seed for t in result.terms] == [m.seed for m in population]
    np.testing.assert_allclose([t.coefficient for t in result.terms], [0.05, -0.05], rtol=1e-6)
    assert all(float(np.float32(t.coefficient)) == t.coefficient for t in result.terms)


def test_failed_member_is_dropped_and_the_divisor_follows():
    population, result = run([1.0, None, 0.0, None], alpha=0.1)
    assert result.valid == (0, 2)
    assert [t.seed for t in result.terms] == [population[0].seed, population[2].seed]
    np.testing.assert_allclose([t.coefficient for t in result.terms], [0.05, -0.05], rtol=1e-6)


def test_below_min_valid_the_run_stops_and_names_the_members():
    with pytest.raises(TooFewMembers, match=r"\[1, 2, 3\]"):
        run([1.0, None, None, None])


def test_antithetic_pairs_share_a_direction_and_a_dead_half_takes_the_pair():
    population, result = run([3.0, 1.0, 0.0, None], estimator="antithetic", shaping="none", alpha=1.0)
    assert [m.sign for m in population] == [1, -1, 1, -1]
    assert population[0].seed == population[1].seed != population[2].seed
    assert [(t.seed, t.coefficient) for t in result.terms] == [(population[0].seed, 1.0)]


def test_antithetic_zscore_keeps_the_sign_of_a_single_pair():
    weights = shape_pairs(np.array([0.2, 0.5]), np.array([0.5, 0.2]), "zscore")
    np.testing.assert_allclose(weights, [-1.0, 1.0], atol=1e-6)
    ranks = shape_pairs(np.array([1.0]), np.array([0.0]), "centered_rank")
    np.testing.assert_allclose(ranks, [1.0])


def test_progress_on_a_linear_reward_follows_the_closed_form():
    """E[progress along g] = alpha * E[sample std of N unit normals] = .97635 alpha at N = 32, whatever |g| is."""
    rng = np.random.Generator(np.random.PCG64(5))
    g = rng.normal(size=50) * 7
    unit, progress, orthogonal = g / np.linalg.norm(g), [], []
    for _ in range(4000):
        eps = rng.normal(size=(32, 50))
        step = zscore(eps @ g) @ eps / 32
        progress.append(step @ unit)
        orthogonal.append(np.sum((step - (step @ unit) * unit) ** 2))
    assert np.mean(progress) == pytest.approx(0.97634676, abs=0.006)
    assert np.mean(orthogonal) == pytest.approx(49 / 32, abs=0.02)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 32])
@pytest.mark.parametrize("population", [1, 7, 32])
def test_shares_cover_the_population_once_and_evenly(population, size):
    everyone = members(0, 0, population, "one_point")
    shares = [share(everyone, rank, size) for rank in range(size)]
    assert sorted((m for s in shares for m in s), key=lambda m: m.index) == everyone
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_odd_antithetic_population_is_refused():
    with pytest.raises(ValueError, match="odd"):
        members(0, 0, 7, "antithetic")


def test_members_of_different_updates_and_runs_differ():
    seeds = {m.seed for run_seed in (0, 1, 42) for u in range(20) for m in members(run_seed, u, 16, "one_point")}
    assert len(seeds) == 3 * 20 * 16
    assert isinstance(members(0, 0, 1, "one_point")[0], Member)
