"""Checks of the noise operations' arguments, shared by the native library and the reference.

All raise ValueError that names the argument, before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from es_mpi.noise.address import unsigned

Float32Array = npt.NDArray[np.float32]
SeedArray = npt.NDArray[np.uint64]
AnyArray = npt.NDArray[Any]

MASTER = (np.float32,)
WORKING_COPY = (np.float32, np.uint16, np.float16)  # uint16 holds the bits of bf16, which numpy does not have
MAX_THREADS = 1024


def check_array(name: str, value: AnyArray, dtypes: Sequence[type], *, written: bool) -> None:
    """`value` must be a one-dimensional, contiguous, aligned array of one of `dtypes`, writeable if it is `written`."""
    if not isinstance(value, np.ndarray) or value.dtype not in dtypes:
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        found = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{name} must be a numpy array of dtype {names}, found {found}")
    if value.ndim != 1:
        raise ValueError(f"{name} must have one dimension, found shape {value.shape}")
    if not (value.flags.c_contiguous and value.flags.aligned):
        raise ValueError(f"{name} must be contiguous and aligned, found strides {value.strides}")
    if written and not value.flags.writeable:
        raise ValueError(f"{name} must be writeable, found a read-only array")


def check_pair(out: AnyArray, master: AnyArray) -> None:
    """A working copy and its master: equal lengths, no memory in common."""
    check_array("out", out, WORKING_COPY, written=True)
    check_array("master", master, MASTER, written=False)
    if len(out) != len(master):
        raise ValueError(f"out must have the length of master, {len(master)}, found {len(out)}")
    if np.may_share_memory(out, master):
        raise ValueError("out must not overlap master: weights are rebuilt from the master, never in place")


def check_place(n: int, start: int, stream: int, threads: int) -> tuple[int, int, int]:
    """The elements [start, start + n) of `stream`, and the number of threads, as plain integers."""
    start = unsigned("start", start)
    if start + n > 1 << 63:
        raise ValueError(f"start must leave start + n within 2**63, found start {start} for n {n}")
    stream = unsigned("stream", stream)
    threads = unsigned("threads", threads)
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads must be in [1, {MAX_THREADS}], found {threads}")
    return start, stream, threads


def finite32(name: str, value: float) -> float:
    """`value` rounded to fp32; it must be finite there."""
    try:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, found {value!r}") from None
    if not math.isfinite(rounded):
        raise ValueError(f"{name} must be finite in fp32, found {value!r}")
    return rounded


def check_terms(seeds: Sequence[int] | SeedArray, coefficients: Sequence[float] | Float32Array) -> tuple[SeedArray, Float32Array]:
    """The terms of an update, uint64[N] and fp32[N]. Arrays of these dtypes are not copied, so that calls for many tensors
    convert their terms once."""
    if len(seeds) != len(coefficients):
        raise ValueError(f"coefficients must have the length of seeds, {len(seeds)}, found {len(coefficients)}")
    if not (isinstance(seeds, np.ndarray) and seeds.dtype == np.uint64 and seeds.ndim == 1):
        seeds = np.array([unsigned("seeds", seed) for seed in seeds], dtype=np.uint64)
    if not (isinstance(coefficients, np.ndarray) and coefficients.dtype == np.float32 and coefficients.ndim == 1):
        coefficients = np.array([finite32("coefficients", value) for value in coefficients], dtype=np.float32)
    infinite = coefficients[~np.isfinite(coefficients)]
    if len(infinite):
        raise ValueError(f"coefficients must be finite in fp32, found {infinite[0]!r}")
    return np.ascontiguousarray(seeds), np.ascontiguousarray(coefficients)
