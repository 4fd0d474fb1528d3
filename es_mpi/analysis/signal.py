"""Do members differ, or do prompts only flip? A two-way analysis of variance of rewards by member and prompt.

reward[member, prompt] = member + prompt + noise. The noise is what one prompt does to one member alone: flipped answers that
another prompt would not repeat. A batch of B prompts averages it down, and what is left of it in a member's mean reward is the
floor that the spread between members must rise above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Signal:
    """`spread` is the standard deviation of the members' mean rewards, `noise` the part of it that prompts alone would give
    (NaN for fewer than two prompts), `members` their number."""

    spread: float
    noise: float
    members: int

    @property
    def ratio(self) -> float:
        """Variance of the means over that of the noise, F: 1 where members do not differ."""
        if self.noise == 0.0:
            return math.inf if self.spread > 0 else 1.0
        return (self.spread / self.noise) ** 2

    @property
    def to_noise(self) -> float:
        """Standard deviation of the members' true mean rewards over that of the noise: 0 where they do not differ."""
        return math.sqrt(max(0.0, self.ratio - 1.0))

    @property
    def fidelity(self) -> float:
        """Correlation of a member's mean reward with its true one. Progress of an update is proportional to it."""
        return math.sqrt(max(0.0, 1.0 - 1.0 / self.ratio)) if self.ratio else 0.0

    @property
    def significant(self) -> bool:
        """Whether F is beyond what equal members would give: 1 and two of its standard deviations, sqrt(2 / (N - 1))."""
        return self.ratio > 1.0 + 2.0 * math.sqrt(2.0 / (self.members - 1))


def signal(rewards: NDArray[np.float64]) -> Signal:
    """Of rewards [members, prompts], at least two members. Prompts on which any reward is NaN are left out."""
    whole = rewards[:, ~np.isnan(rewards).any(axis=0)]
    members, prompts = whole.shape
    if prompts < 2:
        return Signal(float(whole.mean(axis=1).std(ddof=1)) if prompts else math.nan, math.nan, members)
    means = whole.mean(axis=1)
    rest = whole - means[:, None] - whole.mean(axis=0) + whole.mean()
    variance = float(np.sum(rest**2)) / ((members - 1) * (prompts - 1))
    return Signal(float(means.std(ddof=1)), math.sqrt(variance / prompts), members)
