"""Advantages, dynamic sampling, overlong penalty and pairs, against values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from es_mpi.gradient.advantage import advantages, has_signal, overlong_penalty
from es_mpi.gradient.pairs import pairs

ONE_OF_FOUR = [1.0, 0.0, 0.0, 0.0]
TWO_OF_EIGHT = [1.0, 1.0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("rewards", "ddof", "epsilon", "high", "low"),
    [
        (ONE_OF_FOUR, 0, 0.0, math.sqrt(3), -1 / math.sqrt(3)),
        (ONE_OF_FOUR, 1, 1e-6, 0.75 / (0.5 + 1e-6), -0.25 / (0.5 + 1e-6)),  # verl
        (ONE_OF_FOUR, 1, 1e-4, 1.4997000599880024, -0.4999000199960008),  # TRL
        (TWO_OF_EIGHT, 0, 0.0, 1.7320508075688772, -0.5773502691896258),
        (TWO_OF_EIGHT, 1, 0.0, 1.6201851746019651, -0.5400617248673217),
    ],
)
def test_advantages(rewards: Sequence[float], ddof: int, epsilon: float, high: float, low: float) -> None:
    found = advantages(rewards, ddof=ddof, epsilon=epsilon)
    assert found == pytest.approx([high if r else low for r in rewards], abs=1e-9)


def test_without_the_standard_deviation_it_is_dr_grpo() -> None:
    assert advantages(ONE_OF_FOUR, scale_by_std=False) == pytest.approx([0.75, -0.25, -0.25, -0.25], abs=1e-12)


@pytest.mark.parametrize("rewards", [[0.1, 0.1, 0.1], [1.0, 1.0], [math.nan, 1.0, math.nan], [math.nan, math.nan]])
def test_equal_rewards_give_exactly_zero(rewards: Sequence[float]) -> None:
    assert not has_signal(rewards)
    assert not advantages(rewards, epsilon=0.0).any()


def test_a_response_without_a_reward_does_not_count() -> None:
    whole = advantages([1.0, 0.0, 0.0], ddof=0)
    assert advantages([1.0, math.nan, 0.0, 0.0], ddof=0).tolist() == [whole[0], 0.0, whole[1], whole[2]]


@pytest.mark.parametrize("rewards", [[], [1.0]])
def test_a_group_of_one_is_refused(rewards: Sequence[float]) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        advantages(rewards)


@pytest.mark.parametrize(("length", "penalty"), [(0, 0.0), (16384, 0.0), (18432, -0.5), (20480, -1.0), (30000, -1.0)])
def test_overlong_penalty(length: int, penalty: float) -> None:
    assert overlong_penalty(length, max_tokens=20480, buffer=4096) == penalty


@pytest.mark.parametrize("buffer", [0, -1, 11])
def test_an_impossible_buffer_is_refused(buffer: int) -> None:
    with pytest.raises(ValueError, match="max_tokens = 10"):
        overlong_penalty(5, max_tokens=10, buffer=buffer)


def test_pairs_join_right_with_wrong_and_use_each_once() -> None:
    right = [True, False, False, True, False, True, False, False]
    found = pairs(right, most=4, seed=7)
    assert len(found) == 3
    assert {winner for winner, _ in found} == {0, 3, 5}
    assert len({loser for _, loser in found}) == 3
    assert not any(right[loser] for _, loser in found)
    assert len(pairs(right, most=2, seed=7)) == 2


def test_pairs_are_a_function_of_the_seed() -> None:
    right = [i % 2 == 0 for i in range(40)]
    drawn = [pairs(right, most=4, seed=seed) for seed in range(20)]
    assert drawn == [pairs(right, most=4, seed=seed) for seed in range(20)]
    assert len(set(drawn)) == 20
    counts = np.bincount([winner for seed in range(4000) for winner, _ in pairs(right, most=1, seed=seed)], minlength=40)
    assert counts[0::2].min() > 130  # 200 expected, standard deviation 14
    assert not counts[1::2].any()


@pytest.mark.parametrize("right", [[True, True], [False], []])
def test_no_pair_without_both(right: Sequence[bool]) -> None:
    assert pairs(right, most=4, seed=1) == ()
