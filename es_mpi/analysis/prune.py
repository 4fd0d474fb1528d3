"""Keep the largest part of what training changed: theta_0 + Delta where |Delta| > tau (arXiv 2608.27351).

A high sparsity alone says nothing of learning: displacements from random rewards lose as little of their norm. What a pruned
checkpoint still solves does, and evaluating it is what this is for.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_mpi.analysis.weights import Float32, Weights, chunks, deltas
from es_mpi.params.hf_folder import save_tensors
from es_mpi.params.layout import TensorSpec

HALF = 16  # bits of a radix pass


def threshold_for(base: Weights, model: Weights, sparsity: float) -> float:
    """The smallest tau at which at least `sparsity` (0 to 1) of the moved weights are set back; 0 for 0.

    Exact, by two counting passes over the upper and the lower half of the bits of |Delta|: positive fp32 numbers are in the
    order of their bits. Ties at tau are all set back, so the achieved sparsity can be larger.
    """
    upper = np.zeros(1 << HALF, np.int64)
    for _, _, delta in deltas(base, model):
        upper += np.bincount(_bits(delta) >> HALF, minlength=len(upper))
    wanted = math.ceil(sparsity * upper.sum())
    if not wanted:
        return 0.0
    first = int(np.searchsorted(np.cumsum(upper), wanted))
    wanted -= int(upper[:first].sum())
    lower = np.zeros(1 << HALF, np.int64)
    for _, _, delta in deltas(base, model):
        bits = _bits(delta)
        lower += np.bincount(bits[bits >> HALF == first] & (1 << HALF) - 1, minlength=len(lower))
    second = int(np.searchsorted(np.cumsum(lower), wanted))
    return float(np.array([first << HALF | second], np.uint32).view(np.float32)[0])


def write_pruned(base: Weights, model: Weights, threshold: float, out: Path) -> None:
    """Fill the empty folder `out` with the pruned model: files, names and dtypes of the base, kept weights cast once."""

    def values(spec: TensorSpec) -> Float32:
        theta = np.empty(spec.size, np.float32)
        for begin, end in chunks(spec):
            old, new = base.read(spec.name, begin, end), model.read(spec.name, begin, end)
            theta[begin:end] = np.where(np.abs(new - old) <= threshold, old, new)
        return theta

    save_tensors(base.layout, values, out)


def _bits(delta: Float32) -> NDArray[np.uint32]:
    """Bit patterns of |Delta| of the weights that moved."""
    size = np.abs(delta)
    return size[size > 0].view(np.uint32)
