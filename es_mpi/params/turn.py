"""How far an update turns from the one before it, without keeping either in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from es_mpi.noise import native
from es_mpi.types import UpdateTerm

SLICE = 1 << 20  # addresses that are looked at


class Turn:
    """Remembers the last update on a fixed slice of addresses, at most 4 MiB.

    Noise is independent from address to address, so the first million addresses stand for all, with an error of .001.
    Directions of different updates are unrelated: a cosine beyond a few times that error means that seeds repeat.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.float32] | None = None

    def cosine(self, terms: Sequence[UpdateTerm], elements: int, threads: int = 1) -> float:
        """Cosine of this update, of a model of `elements` weights, with the last one that was given; NaN for the first and
        where either is zero."""
        step = np.zeros(min(elements, SLICE), np.float32)
        native.update(step, [t.seed for t in terms], [t.coefficient for t in terms], threads=threads)
        last, self._last = self._last, step
        if last is None:
            return math.nan
        lengths = float(np.linalg.norm(step)) * float(np.linalg.norm(last))
        return float(np.dot(step, last)) / lengths if lengths else math.nan
