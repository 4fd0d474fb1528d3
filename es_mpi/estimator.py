"""From a table of rewards to the terms of the update. Pure arithmetic in float64, the same on every rank.

One-point (arXiv 2608.27351, 2509.24372):   theta' = theta + (alpha / N) sum_i z_i eps_i
with z the z-scored rewards (population standard deviation). 1/sigma is inside alpha: never divided by again.

Antithetic: theta' = theta + (alpha / N_dir) sum_k z_k eps_k over N_dir = N / 2 directions, z_k shaped from the pair
(R+, R-). Differences of pairs are odd in eps, so their mean is zero without a baseline and they are scaled by their
root mean square, not centred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from es_mpi.errors import EsMpiError
from es_mpi.population import Estimator
from es_mpi.types import Member, MemberScore, Status, UpdateTerm

Shaping = Literal["zscore", "centered_rank", "none"]
Vector = NDArray[np.float64]

EPSILON = 1e-8  # added to the standard deviation, as both papers do
MIN_SPREAD = 1e-6  # a real difference is at least 0.1 / batch; below this the spread is float rounding


class TooFewMembers(EsMpiError):
    """Fewer members than `min_valid` could be evaluated: an update from them would not be the method's."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The update and what to log about it. `terms` is empty for a degenerate table (all rewards equal)."""

    terms: tuple[UpdateTerm, ...]
    valid: tuple[int, ...]
    mean: float
    std: float
    degenerate: bool


def zscore(rewards: Vector) -> Vector:
    """(R - mean) / (std + 1e-8) with ddof 0, or zeros where the spread is below MIN_SPREAD."""
    std = rewards.std()
    return (rewards - rewards.mean()) / (std + EPSILON) if std >= MIN_SPREAD else np.zeros_like(rewards)


def centered_rank(rewards: Vector) -> Vector:
    """Ranks mapped to [-1/2, 1/2]; tied rewards share the average of their ranks, so equal rewards all give 0."""
    n = len(rewards)
    if n < 2:
        return np.zeros(n)
    order = np.sort(rewards)
    low, high = np.searchsorted(order, rewards, "left"), np.searchsorted(order, rewards, "right") - 1
    return (low + high) / (2.0 * (n - 1)) - 0.5


def effective_count(rewards: Sequence[float]) -> float:
    """How many different rewards there are, in effect: exp of the entropy of their frequencies, 1 (all equal) to N (none is).

    Few mean that the batch is too small to tell members apart: with two, z knows only who has the better one.
    """
    _, counts = np.unique(rewards, return_counts=True)
    shares = counts / len(rewards)
    return float(np.exp(-np.sum(shares * np.log(shares))))


def rank_of(value: float, rewards: Sequence[float]) -> float:
    """Share of `rewards` below `value`, ties counted half: .5 for a value in their middle. NaN for NaN."""
    if math.isnan(value):
        return math.nan
    return sum((other < value) + (other <= value) for other in rewards) / (2 * len(rewards))


def shape(rewards: Vector, shaping: Shaping) -> Vector:
    if shaping == "zscore":
        return zscore(rewards)
    return centered_rank(rewards) if shaping == "centered_rank" else rewards


def shape_pairs(plus: Vector, minus: Vector, shaping: Shaping) -> Vector:
    """One weight per direction from the rewards of its two halves, shapes [N_dir]."""
    if shaping == "centered_rank":
        ranks = centered_rank(np.concatenate([plus, minus]))
        return ranks[: len(plus)] - ranks[len(plus) :]
    half = (plus - minus) / 2.0
    if shaping == "none":
        return half
    scale = math.sqrt(float(np.mean(half**2))) if len(half) else 0.0
    return half / (scale + EPSILON) if scale >= MIN_SPREAD else np.zeros_like(half)


def estimate(
    population: Sequence[Member],
    scores: Sequence[MemberScore],
    *,
    estimator: Estimator,
    shaping: Shaping,
    alpha: float,
    min_valid: float,
) -> Estimate:
    """The terms of one update from the merged table (one score a member, member order).

    A failed member is dropped (with its other half when antithetic): z and the divisor are over the survivors.
    Raises TooFewMembers when the share of survivors is below `min_valid`.
    """
    rewards = np.array([s.reward for s in scores], dtype=np.float64)
    ok = np.array([s.status == Status.OK for s in scores], dtype=bool)
    if estimator == "antithetic":
        ok = np.repeat(ok.reshape(-1, 2).all(axis=1), 2)
    valid = np.flatnonzero(ok)
    if len(valid) < min_valid * len(population):
        raise TooFewMembers(
            f"{len(valid)} of {len(population)} members could be evaluated, min_valid asks for {min_valid:.0%}; "
            f"members dropped: {np.flatnonzero(~ok).tolist()}. The ranks' logs say why."
        )
    kept = rewards[valid]
    if estimator == "antithetic":
        weights, directions = shape_pairs(kept[0::2], kept[1::2], shaping), valid[0::2]
    else:
        weights, directions = shape(kept, shaping), valid
    coefficients = (alpha / len(weights) * weights).astype(np.float32)
    degenerate = not np.any(weights)
    terms = tuple(UpdateTerm(population[i].seed, float(c)) for i, c in zip(directions, coefficients, strict=True))
    return Estimate(() if degenerate else terms, tuple(map(int, valid)), float(kept.mean()), float(kept.std()), degenerate)
