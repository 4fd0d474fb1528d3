"""95 % intervals over problems, for one model and for the paired difference of two.

Problems are the unit: they are what a data set samples, and the samples of one problem are not independent.
Yes-or-no values have closed forms that stay honest at 0 % and 100 %, where resampling can only say +-0; the rest is
bootstrapped with a private generator, so that equal values and seed give equal intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)
RESAMPLES = 10_000
CHUNK = 1_000_000  # indices drawn at a time: bounds the memory, 8 bytes each


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | Vector, seed: int) -> Interval:
    """95 % interval of the mean of `values`, one a problem: Wilson's if all are 0 or 1, else the bootstrap's.

    Raises ValueError for no values or one that is not finite.
    """
    x = _checked(values)
    return _wilson(x) if _is_binary(x) else _bootstrap(x, seed)


def paired_difference(a: Sequence[float] | Vector, b: Sequence[float] | Vector, seed: int) -> Interval:
    """95 % interval of mean(b - a) over the same problems in the same order.

    Yes-or-no values: Bonett and Price's adjusted interval. Raises ValueError for unequal lengths and as `interval` does.
    """
    x, y = _checked(a), _checked(b)
    if len(x) != len(y):
        raise ValueError(f"paired values must match problem by problem: {len(x)} against {len(y)}")
    return _bonett_price(y - x) if _is_binary(x) and _is_binary(y) else _bootstrap(y - x, seed)


def _checked(values: Sequence[float] | Vector) -> Vector:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError("an interval needs at least one value, all finite, in one dimension")
    return x


def _is_binary(x: Vector) -> bool:
    return bool(np.isin(x, (0.0, 1.0)).all())


def _wilson(x: Vector) -> Interval:
    """Wilson 1927: the shares p that a score test at the observed share does not reject."""
    n, p = len(x), float(x.mean())
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return Interval(p, float(max(0.0, centre - half)), float(min(1.0, centre + half)))


def _bonett_price(difference: Vector) -> Interval:
    """Bonett and Price 2012: Wald's interval of a difference of paired shares with one gain and one loss added."""
    n = len(difference) + 2
    gained, lost = (int((difference == sign).sum()) + 1 for sign in (1.0, -1.0))
    centre = (gained - lost) / n
    half = Z * np.sqrt(((gained + lost) / n - centre**2) / n)
    return Interval(float(difference.mean()), float(max(-1.0, centre - half)), float(min(1.0, centre + half)))


def _bootstrap(x: Vector, seed: int) -> Interval:
    """BCa (Efron 1987), widened for few problems as Student's t is. Equal values have no spread: zero width."""
    n, mean = len(x), float(x.mean())
    if np.ptp(x) == 0:
        return Interval(mean, mean, mean)
    means = _resampled_means(x, np.random.Generator(np.random.PCG64(seed)))
    bias = NORMAL.inv_cdf(float((means < mean).mean() + (means == mean).mean() / 2))
    deviations = x - mean
    skew = float((deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5))
    z = Z * (n / (n - 1)) ** 0.5 * (1 + (Z**2 + 1) / (4 * (n - 1)))
    tails = [NORMAL.cdf(bias + (bias + side) / (1 - skew * (bias + side))) for side in (-z, z)]
    low, high = np.quantile(means, tails)
    return Interval(mean, float(low), float(high))


def _resampled_means(x: Vector, rng: np.random.Generator) -> Vector:
    rows = max(1, CHUNK // len(x))
    sizes = [min(rows, RESAMPLES - done) for done in range(0, RESAMPLES, rows)]
    return np.concatenate([x[rng.integers(len(x), size=(size, len(x)))].mean(axis=1) for size in sizes])
