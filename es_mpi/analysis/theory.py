"""The theory of populations as formulas (arXiv 2608.27351, section 4 and appendix): what the measurements are held against.

pi_i is the policy of member theta + sigma eps_i, pibar the mean of the N members' policies, p_i a member's chance of success on a
prompt, I the Fisher information of theta's policy on it. Everything in nats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def jensen_shannon(policies: NDArray[np.float64]) -> float:
    """JS of distributions [N, outcomes] with equal weights: H(pibar) - mean H(pi_i), between 0 and log N."""
    return max(0.0, float(_entropy(policies.mean(axis=0)) - _entropy(policies).mean()))


def predicted_js(sigma: float, members: int, trace: float) -> float:
    """Lemma 1: E JS = (sigma^2 / 2) (1 - 1/N) tr I, up to O(sigma^4). Beyond the ceiling log N it cannot hold."""
    return sigma**2 / 2 * (1 - 1 / members) * trace


def success_js(chances: Vector) -> float:
    """JS of the members' success and failure, [N]: what of the policies' diversity is left in the grades (Lemma 2)."""
    return jensen_shannon(np.stack([chances, 1 - chances], axis=-1))


def population_success(chances: Vector) -> float:
    """1 - prod(1 - p_i): the chance that one response of each member holds a right one; at least 1 - (1 - pbar)^N."""
    return float(1 - np.prod(1 - chances))


def success_gain(chances: Vector) -> float:
    """What diversity adds to it: population_success - (1 - (1 - pbar)^N)."""
    return float((1 - chances.mean()) ** len(chances) - np.prod(1 - chances))


def success_gain_from_js(chances: Vector) -> float:
    """The leading term of that for a small spread (Lemma 2): N pbar (1 - pbar)^(N - 1) JS_succ."""
    mean, members = float(chances.mean()), len(chances)
    return members * mean * (1 - mean) ** (members - 1) * success_js(chances)


def success_gain_from_variance(chances: Vector) -> float:
    """The same from the variance of the chances: (N / 2) Var(p) (1 - pbar)^(N - 2)."""
    members = len(chances)
    return float(members / 2 * chances.var() * (1 - chances.mean()) ** (members - 2))


def mixture_gain(weights: Vector, chances: Vector) -> float:
    """Lemma 3: what weighting the members' policies gains over pbar, sum_i w_i p_i - pbar = N Cov(w, p). Weights sum to 1."""
    return float(len(weights) * np.mean((weights - weights.mean()) * (chances - chances.mean())))


def transfer_loss(k: int, divergence: float) -> float:
    """Proposition 1: the most that Pass@K can fall between two policies whose success differs by so many nats, K sqrt(e / 2)."""
    return k * math.sqrt(divergence / 2)


def entropy_change(policy: Vector, advantages: Vector, step: float) -> float:
    """First order change of a softmax's entropy in one policy gradient step on its logits: -step Cov(log pi, pi A)."""
    logs, push = np.log(policy), policy * advantages
    return float(-step * (np.sum(policy * logs * push) - np.sum(policy * logs) * np.sum(policy * push)))


def _entropy(policies: NDArray[np.float64]) -> Vector:
    """Of each row."""
    logs = np.log(policies, out=np.zeros_like(policies), where=policies > 0)
    return np.asarray(-np.sum(policies * logs, axis=-1))


def log_log_slope(sigmas: Sequence[float], values: Sequence[float]) -> float:
    """Least squares slope of log(value) over log(sigma): 2 where Lemma 1 holds. NaN for fewer than two points above 0."""
    points = [(math.log(s), math.log(v)) for s, v in zip(sigmas, values, strict=True) if v > 0]
    if len(points) < 2:
        return math.nan
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])
