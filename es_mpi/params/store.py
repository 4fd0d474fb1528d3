"""theta: the fp32 master weights of one rank, what is written from them, and the update rebuilt from seeds.

Weights are rebuilt, never undone: a member's weights are RNE(master + sigma * eps), computed into the caller's buffer
while the master is only read. The update sums in fp32 in the order of its terms and rounds once.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from es_mpi.noise import native
from es_mpi.noise.arguments import check_terms
from es_mpi.params.hf_folder import load_master
from es_mpi.params.layout import Layout
from es_mpi.types import Member, UpdateStats, UpdateTerm


class MasterStore:
    """Owns `master`, a flat float32 array [layout.elements] in the address space of the noise."""

    def __init__(self, layout: Layout, threads: int = 1) -> None:
        self.layout = layout
        self.threads = threads
        self.master: NDArray[np.float32] = _zeros(layout.elements)
        load_master(layout, self.master)

    def write(self, name: str, out: NDArray[np.generic], member: Member | None, sigma: float) -> None:
        """Tensor `name` of theta + sign * sigma * eps(seed) (of theta alone for `member` None or a tensor that is not
        trained) into `out`, a flat contiguous array of its size: float32, float16, or uint16 holding bf16 bits."""
        spec = self.layout[name]
        theta = self.master[spec.offset : spec.offset + spec.size]
        if member is None or not spec.trained:
            native.perturb(out, theta, 0, 0.0, start=spec.offset, threads=self.threads)
        else:
            native.perturb(out, theta, member.seed, member.sign * sigma, start=spec.offset, threads=self.threads)

    def update(self, terms: Sequence[UpdateTerm]) -> UpdateStats:
        """theta += sum_i coefficient_i * eps(seed_i), in place, over the trained tensors."""
        seeds, coefficients = check_terms([t.seed for t in terms], [t.coefficient for t in terms])
        intended = moved = product = 0.0
        for begin, end in self._trained_ranges() if terms else ():
            sums = native.update(self.master[begin:end], seeds, coefficients, start=begin, threads=self.threads)
            intended, moved, product = intended + sums[0], moved + sums[1], product + sums[2]
        lengths = math.sqrt(intended) * math.sqrt(moved)
        return UpdateStats(math.sqrt(intended), math.sqrt(moved), product / lengths if lengths else math.nan)

    def digest(self) -> str:
        """16 hex digits that change with any bit of the master, whatever the number of threads."""
        return f"{native.digest(self.master, threads=self.threads):016x}"

    def _trained_ranges(self) -> list[tuple[int, int]]:
        return [(t.offset, t.offset + t.size) for t in self.layout.tensors if t.trained]


def _zeros(elements: int) -> NDArray[np.float32]:
    """Float32 zeros on ordinary pages. numpy asks for huge ones, which the kernel may take seconds a GiB to free up and
    which gain nothing here: the master is only ever read and written from end to end."""
    return np.frombuffer(mmap.mmap(-1, 4 * elements, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.float32)
