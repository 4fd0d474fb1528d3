"""theta: the fp32 master weights of one rank, what is written from them, and the update rebuilt from seeds.

Weights are rebuilt, never undone: a member's weights are RNE(master + sigma * eps), computed into the caller's buffer
while the master is only read. The update sums in fp32 in the order of its terms and rounds once.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from es_mpi.noise import native
from es_mpi.noise.arguments import Float32Array, SeedArray, check_terms
from es_mpi.params.hf_folder import load_master
from es_mpi.params.layout import Layout
from es_mpi.types import Member, UpdateStats, UpdateTerm


class Holder(Protocol):
    """Memory elsewhere that holds theta and applies updates to it, with the same bits."""

    def update(
        self, ranges: Sequence[tuple[int, int]], seeds: SeedArray, coefficients: Float32Array
    ) -> tuple[float, float, float]: ...

    def digest(self) -> int: ...

    def read(self, into: Float32Array) -> None: ...


class MasterStore:
    """Owns theta, a flat float32 array [layout.elements] in the address space of the noise, here or with a holder."""

    def __init__(self, layout: Layout, threads: int = 1) -> None:
        self.layout = layout
        self.threads = threads
        self._host: Float32Array = _zeros(layout.elements)
        self._holder: Holder | None = None
        self._behind = False  # the host's copy lacks updates
        load_master(layout, self._host)

    @property
    def master(self) -> Float32Array:
        """theta on the host. Read-only once a holder has it."""
        if self._holder is None:
            return self._host
        self._catch_up()
        theta = self._host.view()
        theta.flags.writeable = False
        return theta

    def follow(self, holder: Holder | None) -> None:
        """theta, as it is now, lives with `holder` from here on, and what is asked of this store is asked of it. None brings
        it back."""
        self._catch_up()
        self._holder = holder

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
        ranges = self._trained_ranges() if terms else []
        if self._holder is not None:
            self._behind = True
            intended, moved, product = self._holder.update(ranges, seeds, coefficients)
        else:
            intended, moved, product = self._update_here(ranges, seeds, coefficients)
        lengths = math.sqrt(intended) * math.sqrt(moved)
        return UpdateStats(math.sqrt(intended), math.sqrt(moved), product / lengths if lengths else math.nan)

    def digest(self) -> str:
        """16 hex digits that change with any bit of the master, whatever the number of threads."""
        holder = self._holder
        return f"{holder.digest() if holder else native.digest(self._host, threads=self.threads):016x}"

    def _catch_up(self) -> None:
        if self._behind and self._holder is not None:
            self._holder.read(self._host)
            self._behind = False

    def _update_here(
        self, ranges: Sequence[tuple[int, int]], seeds: SeedArray, coefficients: Float32Array
    ) -> tuple[float, float, float]:
        intended = moved = product = 0.0
        for begin, end in ranges:
            sums = native.update(self._host[begin:end], seeds, coefficients, start=begin, threads=self.threads)
            intended, moved, product = intended + sums[0], moved + sums[1], product + sums[2]
        return intended, moved, product

    def _trained_ranges(self) -> list[tuple[int, int]]:
        return [(t.offset, t.offset + t.size) for t in self.layout.tensors if t.trained]


def _zeros(elements: int) -> NDArray[np.float32]:
    """Float32 zeros on ordinary pages. numpy asks for huge ones, which the kernel may take seconds a GiB to free up and
    which gain nothing here: the master is only ever read and written from end to end."""
    return np.frombuffer(mmap.mmap(-1, 4 * elements, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.float32)
