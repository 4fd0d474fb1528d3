"""Weights read a few million at a time, so that comparing two models takes megabytes, whatever their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from es_mpi.errors import UsageError
from es_mpi.params.hf_folder import encode, read_tensor, widen
from es_mpi.params.layout import Layout, TensorSpec

CHUNK = 1 << 22  # elements

Float32 = NDArray[np.float32]


class Weights(Protocol):
    """theta of a model, tensor by tensor, in fp32."""

    @property
    def layout(self) -> Layout: ...

    def read(self, name: str, begin: int, end: int) -> Float32:
        """Elements [begin, end) of a tensor, flat."""
        ...


@dataclass(frozen=True)
class StoredWeights:
    """Those of a model folder, exactly widened."""

    layout: Layout

    def read(self, name: str, begin: int, end: int) -> Float32:
        out = np.empty(end - begin, np.float32)
        read_tensor(self.layout.folder, self.layout[name], begin, out)
        return out


@dataclass(frozen=True)
class MasterWeights:
    """A flat fp32 master in the layout's order, in memory or mapped from a file."""

    layout: Layout
    theta: NDArray[Any]

    def read(self, name: str, begin: int, end: int) -> Float32:
        offset = self.layout[name].offset
        return np.asarray(self.theta[offset + begin : offset + end], np.float32)


@dataclass(frozen=True)
class RoundedWeights:
    """A master as a checkpoint of the layout's dtypes holds it: what evaluations of the stored model see."""

    master: Weights

    @property
    def layout(self) -> Layout:
        return self.master.layout

    def read(self, name: str, begin: int, end: int) -> Float32:
        out, dtype = np.empty(end - begin, np.float32), self.layout[name].dtype
        widen(encode(self.master.read(name, begin, end), dtype), dtype, out)
        return out


def chunks(spec: TensorSpec) -> Iterator[tuple[int, int]]:
    """[begin, end) of the pieces that a tensor is read in."""
    return ((begin, min(begin + CHUNK, spec.size)) for begin in range(0, spec.size, CHUNK))


def deltas(base: Weights, model: Weights) -> Iterator[tuple[str, Float32, Float32]]:
    """(tensor, weights of `base`, model - base) of each piece, flat fp32. Raises UsageError where one is not finite."""
    for spec in base.layout.tensors:
        for begin, end in chunks(spec):
            old = base.read(spec.name, begin, end)
            delta = model.read(spec.name, begin, end) - old
            if not np.isfinite(delta).all():
                raise UsageError(f"tensor {spec.name} holds values that are not finite", value=str(model.layout.folder))
            yield spec.name, old, delta


def first_difference(a: Weights, b: Weights) -> str | None:
    """The first tensor in which two models of the same tensors differ in any weight."""
    for spec in a.layout.tensors:
        if any(not np.array_equal(a.read(spec.name, *part), b.read(spec.name, *part)) for part in chunks(spec)):
            return spec.name
    return None


def require_same_tensors(base: Layout, model: Layout) -> None:
    """Raises UsageError that names the first tensors which only one of the two has, or has in another shape."""
    shapes = [{t.name: t.shape for t in layout.tensors} for layout in (base, model)]
    faults = [
        f"{name}: {_shape(shapes[0], name)} in the base, {_shape(shapes[1], name)} in the model"
        for name in sorted(shapes[0].keys() | shapes[1].keys())
        if shapes[0].get(name) != shapes[1].get(name)
    ]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise UsageError(
            "base and model are not the same architecture",
            value="; ".join(faults[:5]) + more,
            expected=f"the tensors of {base.folder}",
            key="MODEL",
            remedy="name the model that this one was trained from as BASE",
        )


def _shape(shapes: dict[str, tuple[int, ...]], name: str) -> str:
    return "x".join(map(str, shapes[name])) if name in shapes else "missing"
