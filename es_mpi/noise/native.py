"""The noise operations at full speed: checked numpy arrays in, the C ABI library behind.

All of them address elements by their global index g = start + i (see es_mpi.params.layout): any slice, on any number of
threads, on any machine, gives the same bits. Without the library the reference does the same work, slowly.
All raise ValueError that names the argument, and write nothing, if one is unfit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from es_mpi.errors import Divergence, UsageError
from es_mpi.noise import reference
from es_mpi.noise.address import STREAM_WEIGHTS, unsigned
from es_mpi.noise.arguments import (
    MASTER,
    WORKING_COPY,
    AnyArray,
    Float32Array,
    SeedArray,
    check_array,
    check_pair,
    check_place,
    check_terms,
    finite32,
)
from es_mpi.noise.library import load

GOLDEN = "afc553e654314d99"
"""The noise's fingerprint: `self_test` of every implementation on every machine."""

# The golden value was taken with this starting value, the one of FNV-1a without its last decimal digit.
GOLDEN_BASIS = 1469598103934665603


def fill(out: Float32Array, seed: int, *, start: int = 0, stream: int = STREAM_WEIGHTS, threads: int = 1) -> None:
    """Write the standard normals eps[start : start + n] of (seed, stream) into `out`, fp32[n]."""
    library = load()
    if library is None:
        return reference.fill(out, seed, start=start, stream=stream)
    check_array("out", out, MASTER, written=True)
    start, stream, threads = check_place(len(out), start, stream, threads)
    library.es_mpi_noise_fill(out.ctypes.data, len(out), start, unsigned("seed", seed), stream, threads)


def perturb(
    out: AnyArray,
    master: Float32Array,
    seed: int,
    sigma: float,
    *,
    start: int = 0,
    stream: int = STREAM_WEIGHTS,
    threads: int = 1,
) -> None:
    """Write the working copy out = round(master + sigma * eps), rounded once from the exact fp32 fma to nearest even.

    `out` is fp32[n], fp16[n] or, as uint16[n], the bits of bf16; `master` is fp32[n] and stays as it is. A negative `sigma`
    (the other half of an antithetic pair) negates the noise; a `sigma` of 0 casts the master: the centre itself.
    """
    library = load()
    if library is None:
        return reference.perturb(out, master, seed, sigma, start=start, stream=stream)
    check_pair(out, master)
    start, stream, threads = check_place(len(out), start, stream, threads)
    library.es_mpi_noise_perturb(
        out.ctypes.data,
        WORKING_COPY.index(out.dtype.type),
        master.ctypes.data,
        len(out),
        start,
        unsigned("seed", seed),
        stream,
        finite32("sigma", sigma),
        threads,
    )


def update(
    master: Float32Array,
    seeds: Sequence[int] | SeedArray,
    coefficients: Sequence[float] | Float32Array,
    *,
    start: int = 0,
    stream: int = STREAM_WEIGHTS,
    threads: int = 1,
) -> tuple[float, float, float]:
    """Add a = sum_i c_i * eps(seed_i) to `master`, fp32[n], in place: memory is read and written once for all members.

    a is summed in fp32 by fma in the order of `seeds`, then added once. Elements with a = 0 keep their bits, so that
    coefficients of 0 change nothing at all. Coefficients are rounded to fp32.

    Returns, for monitoring, (sum a^2, sum d^2, sum a d) with d the move of a bf16 copy of the master.
    """
    library = load()
    if library is None:
        return reference.update(master, seeds, coefficients, start=start, stream=stream)
    check_array("master", master, MASTER, written=True)
    start, stream, threads = check_place(len(master), start, stream, threads)
    words, values = check_terms(seeds, coefficients)
    sums = np.zeros(3)
    library.es_mpi_noise_update(
        master.ctypes.data,
        len(master),
        start,
        words.ctypes.data,
        values.ctypes.data,
        len(words),
        stream,
        threads,
        sums.ctypes.data,
    )
    return float(sums[0]), float(sums[1]), float(sums[2])


def philox(n: int, seed: int, *, start: int = 0, stream: int = STREAM_WEIGHTS, threads: int = 1) -> int:
    """Exclusive or of the Philox words behind eps[start : start + n], as pairs of whole tiles of 1024: all of the noise but
    its normals, for measuring. Raises UsageError without the library."""
    library = load()
    if library is None:
        raise UsageError("there is no native noise library to measure", remedy="install es_mpi where a C++ compiler is present")
    start, stream, threads = check_place(unsigned("n", n, 63), start, stream, threads)
    return int(library.es_mpi_noise_philox(n, start, unsigned("seed", seed), stream, threads))


def digest(master: Float32Array, *, start: int = 0, threads: int = 1) -> int:
    """A checksum of `master`, fp32[n], unsigned 64 bit: digests of parts, each with its own `start`, add up modulo 2**64.

    sum over g of mix64(bits(master_g) ^ (g + 1) GAMMA). For a fixed g the term is a bijection of the bits, so that any
    change of a single element changes the sum; other accidents go unseen with a chance of about 2**-64.
    """
    library = load()
    if library is None:
        return reference.digest(master, start=start)
    check_array("master", master, MASTER, written=False)
    start, _, threads = check_place(len(master), start, STREAM_WEIGHTS, threads)
    return int(library.es_mpi_noise_digest(master.ctypes.data, len(master), start, threads))


def isa() -> str:
    """The instruction set in use: avx512bf16, avx512, avx2, portable, or reference where there is no library."""
    library = load()
    return reference.isa() if library is None else str(library.es_mpi_noise_isa().decode())


def self_test() -> str:
    """FNV-1a over the bytes of the first 2**22 normals of seed 42, 16 hexadecimal digits: always GOLDEN.

    Raises Divergence otherwise: this build or machine would make other noise than the rest of the run.
    """
    eps = np.empty(1 << 22, np.float32)
    fill(eps, 42)
    library = load()
    if library is None:
        found = f"{reference.fnv1a(eps, GOLDEN_BASIS):016x}"
    else:
        found = f"{library.es_mpi_noise_fnv1a(eps.ctypes.data, eps.nbytes, GOLDEN_BASIS):016x}"
    if found != GOLDEN:
        raise Divergence(f"the noise of this machine ({isa()}) is wrong: golden value {found}, expected {GOLDEN}")
    return found


def noise_hash() -> str:
    """The digest of one million normals, 16 hexadecimal digits: what ranks compare when a run starts (milliseconds)."""
    eps = np.empty(1_000_000, np.float32)
    fill(eps, 42)
    return f"{digest(eps):016x}"
