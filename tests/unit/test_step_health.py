"""What says whether updates are healthy: the turn from one to the next, distinct rewards, the centre's rank."""

from __future__ import annotations

import math

import numpy as np
import pytest

from es_mpi.estimator import effective_count, rank_of
from es_mpi.noise import native
from es_mpi.params.turn import SLICE, Turn
from es_mpi.types import UpdateTerm

A, B = [UpdateTerm(1, 0.5), UpdateTerm(2, -0.25)], [UpdateTerm(3, 0.5), UpdateTerm(4, 0.125)]


def test_updates_of_other_seeds_are_orthogonal():
    turn = Turn()
    assert math.isnan(turn.cosine(A, 10**9))
    assert abs(turn.cosine(B, 10**9)) < 4e-3


def test_repeated_seeds_are_seen():
    turn = Turn()
    turn.cosine(A, SLICE)
    assert turn.cosine(A, SLICE) == pytest.approx(1.0, abs=1e-5)
    assert turn.cosine([UpdateTerm(t.seed, -t.coefficient) for t in A], SLICE) == pytest.approx(-1.0, abs=1e-5)


def test_the_slice_estimates_the_cosine_of_the_whole():
    half = [*A[:1], UpdateTerm(9, 0.5)]
    turn = Turn()
    turn.cosine(A, SLICE)
    found = turn.cosine(half, SLICE)
    whole = []
    for terms in (A, half):
        step = np.zeros(4 * SLICE, np.float32)
        native.update(step, [t.seed for t in terms], [t.coefficient for t in terms])
        whole.append(step / np.linalg.norm(step))
    assert found == pytest.approx(float(whole[0] @ whole[1]), abs=4e-3)


def test_an_update_of_nothing_has_no_direction():
    turn = Turn()
    turn.cosine(A, 1000)
    assert math.isnan(turn.cosine([], 1000))
    assert math.isnan(turn.cosine(A, 1000))


@pytest.mark.parametrize(
    ("rewards", "count"), [([1, 1, 1, 1], 1), ([1, 2, 3, 4], 4), ([0, 0, 1, 1], 2), ([0, 0, 0, 1], math.exp(0.5623351446))]
)
def test_effective_number_of_rewards(rewards, count):
    assert effective_count(rewards) == pytest.approx(count)


@pytest.mark.parametrize(("value", "rank"), [(0, 0), (1, 0.125), (2.5, 0.5), (3, 0.625), (9, 1)])
def test_rank_with_ties_counted_half(value, rank):
    assert rank_of(value, [1, 2, 3, 4]) == rank


def test_no_rank_of_nan():
    assert math.isnan(rank_of(math.nan, [1, 2]))
