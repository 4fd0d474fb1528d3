"""From the rewards of a prompt's group to advantages, and the DAPO pieces that act on groups and rewards. Pure float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIN_SPREAD = 1e-6  # rewards closer than this are equal up to rounding


def advantages(rewards: Sequence[float], *, scale_by_std: bool = True, ddof: int = 0, epsilon: float = 1e-6) -> Vector:
    """A_i = (R_i - mean R) / (std R + epsilon), shape [G]; without `scale_by_std` only R_i - mean R.

    ddof 0 is the paper's population standard deviation (arXiv 2402.03300), 1 that of verl and TRL; no std is Dr. GRPO
    (arXiv 2503.20783). NaN marks a response without a reward (its grader failed): it gets 0 and does not count in mean and std.
    Equal rewards give exactly 0. Raises ValueError for a group of one, whose advantage is not defined.
    """
    group = np.asarray(rewards, dtype=np.float64)
    if len(group) < 2:
        raise ValueError(f"a group of {len(group)} has no advantages: at least 2 responses a prompt are needed")
    result = np.zeros_like(group)
    if has_signal(group):
        kept = np.isfinite(group)
        centred = group[kept] - group[kept].mean()
        result[kept] = centred / (group[kept].std(ddof=ddof) + epsilon) if scale_by_std else centred
    return result


def has_signal(rewards: Sequence[float] | Vector) -> bool:
    """Whether a group's rewards differ: only such groups move the policy loss, so dynamic sampling keeps only them (DAPO)."""
    group = np.asarray(rewards, dtype=np.float64)
    kept = group[np.isfinite(group)]
    return len(kept) > 1 and float(kept.std()) >= MIN_SPREAD


def overlong_penalty(length: int, *, max_tokens: int, buffer: int) -> float:
    """DAPO's soft penalty (arXiv 2503.14476), to add to a reward: 0 up to max_tokens - buffer, -1 from max_tokens on.

    Linear between; lengths in tokens. Raises ValueError unless 0 < buffer <= max_tokens.
    """
    if not 0 < buffer <= max_tokens:
        raise ValueError(f"an overlong buffer of {buffer} tokens, expected 1 to max_tokens = {max_tokens}")
    return -min(max(length - (max_tokens - buffer), 0) / buffer, 1.0)
