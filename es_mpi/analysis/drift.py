"""How far training moved the weights: Delta = theta - theta_0, whole, by layer and by kind of tensor.

Relative drift is |Delta| / |theta_0| (arXiv 2608.27351). Both it and the sparsity at a threshold are what random rewards give
too, so each is shown beside the random walk's law and, where there is one, a run on random rewards (es_mpi.analysis.gaussian).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from es_mpi.analysis.weights import Weights, deltas

LARGEST = 100  # coordinates whose tensors are named: the paper finds them in norms


@dataclass
class Sums:
    """What adds up over tensors: elements, those that moved, squares of theta_0 and Delta; and the largest |Delta|."""

    elements: int = 0
    moved: int = 0
    base2: float = 0.0
    delta2: float = 0.0
    largest: float = 0.0

    @property
    def norm(self) -> float:
        return math.sqrt(self.delta2)

    @property
    def relative(self) -> float | None:
        """|Delta| / |theta_0|; None where theta_0 is zero, as fresh biases are."""
        return math.sqrt(self.delta2 / self.base2) if self.base2 else None

    @property
    def rms(self) -> float:
        return math.sqrt(self.delta2 / self.elements) if self.elements else 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.elements + other.elements,
            self.moved + other.moved,
            self.base2 + other.base2,
            self.delta2 + other.delta2,
            max(self.largest, other.largest),
        )


@dataclass
class Drift:
    """Sums by tensor, in the order of their names, and how many of the LARGEST coordinates lie in each kind of tensor."""

    tensors: dict[str, Sums]
    largest: Counter[str] = field(default_factory=Counter)

    @property
    def whole(self) -> Sums:
        return sum(self.tensors.values(), Sums())

    def by(self, group: Callable[[str], str]) -> dict[str, Sums]:
        """Sums of the tensors that `group` gives the same name, groups in the order they are met."""
        groups: dict[str, Sums] = {}
        for name, sums in self.tensors.items():
            groups[group(name)] = groups.get(group(name), Sums()) + sums
        return groups


@dataclass(frozen=True, slots=True)
class Cut:
    """What zeroing every |Delta| <= threshold does: the share of moved weights it undoes and of the squared norm it keeps."""

    threshold: float
    sparsity: float
    kept: float


def kind(tensor: str) -> str:
    """`model.layers.3.self_attn.q_proj.weight` is a `q_proj.weight`."""
    return ".".join(tensor.split(".")[-2:])


def layer(tensor: str) -> str:
    """The number of the layer that a tensor belongs to, or `outside`."""
    number = re.search(r"\.(\d+)\.", tensor)
    return number[1].zfill(3) if number else "outside"


def measure(base: Weights, model: Weights) -> Drift:
    """One pass over both. Sums are in fp64 of fp32 differences. Raises UsageError for a weight that is not finite."""
    tensors = {spec.name: Sums() for spec in base.layout.tensors}
    top: list[tuple[float, str]] = []
    for name, old, delta in deltas(base, model):
        size = np.abs(delta)
        base2, delta2 = (float(np.sum(np.square(x, dtype=np.float64))) for x in (old, delta))
        tensors[name] += Sums(size.size, int(np.count_nonzero(size)), base2, delta2, float(size.max()))
        part = size if size.size <= LARGEST else np.partition(size, -LARGEST)[-LARGEST:]
        top = sorted([*top, *((float(x), kind(name)) for x in part if x > 0)], reverse=True)[:LARGEST]
    return Drift(tensors, Counter(name for _, name in top))


def cuts(base: Weights, model: Weights, thresholds: Sequence[float]) -> list[Cut]:
    """What each threshold would do, in one pass. `sparsity` counts among the weights that moved."""
    moved, norm2 = 0, 0.0
    undone, kept2 = [0] * len(thresholds), [0.0] * len(thresholds)
    for _, _, delta in deltas(base, model):
        size = np.abs(delta)
        squares = np.square(size, dtype=np.float64)
        still = int(np.count_nonzero(size == 0))
        moved, norm2 = moved + size.size - still, norm2 + float(squares.sum())
        for place, threshold in enumerate(thresholds):
            small = size <= threshold
            undone[place] += int(np.count_nonzero(small)) - still
            kept2[place] += float(squares.sum(where=~small))
    if not moved:
        return [Cut(threshold, 0.0, 1.0) for threshold in thresholds]
    return [Cut(t, u / moved, k / norm2) for t, u, k in zip(thresholds, undone, kept2, strict=True)]
