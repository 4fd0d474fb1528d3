"""Could a difference be chance? A paired permutation test over problems, Holm's correction over tasks, Student's t over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import atan, comb, cos, floor, pi, sin, sqrt

import numpy as np

from es_mpi.evaluation.statistics import Interval, Vector

EXACT = 16  # differences that are not 0: up to so many all 2^m sign patterns are counted
DRAWS = 20_000
CHUNK = 2_000_000  # signs drawn at a time: bounds the memory
SLACK = 1e-12  # sums that differ by rounding alone are ties


def permutation_p(differences: Sequence[float] | Vector, seed: int) -> float:
    """Two-sided p of a mean difference over the same problems: how often random signs give one as far from 0.

    Under "no difference" a problem's two values could be swapped, which flips the sign of its difference. Exact for yes-or-no
    values (then it is McNemar's exact test) and for up to 16 differences that are not 0; else 20,000 draws of a private
    generator, (1 + hits) / (1 + draws), which is valid and never 0 (Phipson and Smyth 2010). 1 where nothing differs.
    """
    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0]
    if d.size == 0:
        return 1.0
    if (np.abs(d) == abs(d[0])).all():
        return _sign_test(int((d > 0).sum()), d.size)
    observed = abs(d.sum()) - SLACK * np.abs(d).sum()
    if d.size <= EXACT:
        signs = 1 - 2 * (np.arange(2**d.size)[:, None] >> np.arange(d.size) & 1)
        return float((np.abs(signs @ d) >= observed).mean())
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = max(1, CHUNK // d.size)
    hits = 0
    for done in range(0, DRAWS, rows):
        signs = rng.integers(2, size=(min(rows, DRAWS - done), d.size), dtype=np.int8) * 2 - 1
        hits += int((np.abs(signs @ d) >= observed).sum())
    return (1 + hits) / (1 + DRAWS)


def _sign_test(gained: int, n: int) -> float:
    tail = sum(comb(n, i) for i in range(min(gained, n - gained) + 1))
    return min(1.0, 2 * tail / 2**n)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p values corrected for the number of tests (Holm 1979): the chance of any false alarm stays below the level."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - place) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}


def over_seeds(values: Sequence[float]) -> Interval | None:
    """Mean of one value a training seed with Student's 95 % interval; None for a single seed, which shows no spread."""
    n = len(values)
    if n < 2:
        return None
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    half = t_quantile(n - 1) * spread / sqrt(n)
    return Interval(mean, mean - half, mean + half)


def difference_over_seeds(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """mean(b) - mean(a) over independent training seeds with Welch's 95 % interval, degrees of freedom rounded down.

    None where a side has a single seed.
    """
    if min(len(a), len(b)) < 2:
        return None
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    mean = float(np.mean(b) - np.mean(a))
    if sum(parts) == 0:
        return Interval(mean, mean, mean)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(v) - 1) for part, v in zip(parts, (a, b), strict=True))
    half = t_quantile(max(1, floor(freedom + SLACK))) * sqrt(sum(parts))
    return Interval(mean, mean - half, mean + half)


def t_quantile(freedom: int, share: float = 0.95) -> float:
    """The t that Student's distribution stays within with chance `share`, by bisection of its closed form."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < share else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(|T| < t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
