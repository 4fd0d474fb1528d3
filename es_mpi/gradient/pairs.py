"""Preference pairs of one prompt: a right response with a wrong one, each used at most once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pairs(right: Sequence[bool], *, most: int, seed: int) -> tuple[tuple[int, int], ...]:
    """(winner, loser) indices: min(number right, number wrong, `most`) pairs, drawn without replacement.

    A function of `seed` (unsigned 64 bits) and the verdicts alone. Empty where all are right or all are wrong.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    verdicts = np.asarray(right, dtype=bool)
    winners = generator.permutation(np.flatnonzero(verdicts))[:most]
    losers = generator.permutation(np.flatnonzero(~verdicts))[:most]
    return tuple((int(winner), int(loser)) for winner, loser in zip(winners, losers, strict=False))
