"""The noise stream in plain numpy: the readable specification of the bits that the native library makes fast.

The normal of element g depends only on (seed, stream, g): Philox4x32-10 words (Salmon et al., SC'11) of block g // 4, then
Box-Muller in fp32 with own polynomials. Every operation is one that IEEE 754 rounds exactly, to nearest even; the fused
multiply-add, which numpy lacks, is built from fp64 operations. Same signatures as es_mpi.noise.native; `threads` is unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from es_mpi.noise.address import GAMMA, fnv1a64, mix64, unsigned
from es_mpi.noise.arguments import (
    MASTER,
    AnyArray,
    Float32Array,
    SeedArray,
    check_array,
    check_pair,
    check_place,
    check_terms,
    finite32,
)

Words = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.integer[Any]]

CHUNK = 1 << 16  # elements worked on at a time: bounds memory, does not change bits


# ---- exact arithmetic ------------------------------------------------------------------------------------------------


def fma(a: Float32Array | float, b: Float32Array | float, c: Float32Array | float) -> Float32Array:
    """a * b + c of fp32 values, rounded once to fp32.

    The fp64 product of two fp32 values is exact. TwoSum gives the fp64 sum and its error; rounding that sum to odd instead
    of to nearest keeps enough of the error for the last rounding to be right (Boldo and Melquiond, 2008).
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    toward_error = np.where((error > 0) == (total > 0), 1, -1)
    odd: npt.NDArray[np.float64] = (bits + np.where(inexact, toward_error, 0)).view(np.float64)
    return odd.astype(np.float32)


def sqrt(x: Float32Array) -> Float32Array:
    """The fp32 square root, rounded once: fp64 has more than twice the digits, so the second rounding is harmless."""
    return np.sqrt(x.astype(np.float64)).astype(np.float32)


def polynomial(x: Float32Array, *coefficients: str) -> Float32Array:
    """Horner's rule with fma; coefficients from the highest power down, in hexadecimal fp32."""
    value: Float32Array = np.full_like(x, float.fromhex(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = fma(value, x, float.fromhex(coefficient))
    return value


# ---- the normals -----------------------------------------------------------------------------------------------------


def philox(counter: Sequence[Integers], seed: int) -> list[Words]:
    """Philox4x32-10: four output words, uint32, of four counter words (each a uint64 array below 2**32) and a key."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [word.astype(np.uint32) for word in (c0, c1, c2, c3)]


def box_muller(w0: Words, w1: Words) -> tuple[Float32Array, Float32Array]:
    """Two independent standard normals from two words: radius sqrt(-2 ln u) from w0, angle from w1."""
    u = fma(w0.astype(np.float32), float.fromhex("0x1.fffffep-33"), float.fromhex("0x1p-33"))
    e = ((u.view(np.uint32) >> 23).astype(np.int32) - 126).astype(np.float32)
    y = (u.view(np.uint32) & 0x7FFFFF | 0x3F000000).view(np.float32) - np.float32(1)  # u = (1 + y) 2^e
    p = polynomial(y, "0x1.2f57aap+1", "0x1.14dfdp+1", "0x1.922402p+0", "-0x1.3771b2p-4", "0x1.16c8d8p-1",
                   "-0x1.53d3ccp-1", "0x1.0004cap+0", "-0x1.fffffcp+0")  # fmt: skip
    r = sqrt(fma(y, p, e * np.float32(float.fromhex("-0x1.62e43p+0"))))
    x = (w1 & 0x7FFFFF | 0x3F800000).view(np.float32) - np.float32(1.5)
    t = x * x
    s = x * polynomial(t, "-0x1.1bf948p-1", "0x1.455cf2p+1", "-0x1.4ab278p+2", "0x1.921f5cp+1")  # sin(pi x)
    c = polynomial(t, "0x1.c1f066p-3", "-0x1.54f61ap+0", "0x1.03bd06p+2", "-0x1.3bd3a6p+2", "0x1.fffffep-1")  # cos(pi x)
    c = (c.view(np.uint32) ^ (w1 & 0x80000000)).view(np.float32)
    return r * c, r * s


def normals(start: int, n: int, seed: int, stream: int) -> Float32Array:
    """eps[start : start + n] of the stream, fp32[n]."""
    first = start // 4
    block = np.arange(first, (start + n + 3) // 4, dtype=np.uint64)
    low = np.full_like(block, stream & 0xFFFFFFFF), np.full_like(block, stream >> 32)
    w0, w1, w2, w3 = philox((block & 0xFFFFFFFF, block >> 32, *low), seed)
    z = np.stack([*box_muller(w0, w1), *box_muller(w2, w3)], axis=1).reshape(-1)
    return z[start - 4 * first :][:n]


# ---- rounding to the working copy ------------------------------------------------------------------------------------


def bf16_bits(x: Float32Array) -> npt.NDArray[np.uint16]:
    """Bits of the nearest bf16, ties to even; a NaN stays a NaN."""
    bits = x.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16)


def fp16(x: Float32Array) -> npt.NDArray[np.float16]:
    """The nearest fp16, ties to even; a NaN stays a NaN, quiet, with the top bits of its payload."""
    bits = x.view(np.uint32)
    nan = bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x1FF
    with np.errstate(over="ignore"):
        nearest = x.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(x), nan, nearest).astype(np.uint16).view(np.float16)


# ---- the operations --------------------------------------------------------------------------------------------------


def fill(out: Float32Array, seed: int, *, start: int = 0, stream: int = 0, threads: int = 1) -> None:
    """out = eps. See `es_mpi.noise.native.fill`."""
    check_array("out", out, MASTER, written=True)
    start, stream, _ = check_place(len(out), start, stream, threads)
    seed = unsigned("seed", seed)
    for part in _chunks(len(out)):
        out[part] = normals(start + part.start, part.stop - part.start, seed, stream)


def perturb(
    out: AnyArray, master: Float32Array, seed: int, sigma: float, *, start: int = 0, stream: int = 0, threads: int = 1
) -> None:
    """out = round(fma(sigma, eps, master)); a plain cast if sigma is 0. See `es_mpi.noise.native.perturb`."""
    check_pair(out, master)
    start, stream, _ = check_place(len(out), start, stream, threads)
    seed = unsigned("seed", seed)
    sigma = finite32("sigma", sigma)
    for part in _chunks(len(out)):
        theta = master[part]
        with np.errstate(all="ignore"):
            if sigma != 0:
                theta = fma(sigma, normals(start + part.start, len(theta), seed, stream), theta)
            out[part] = bf16_bits(theta) if out.dtype == np.uint16 else fp16(theta) if out.dtype == np.float16 else theta


def update(
    master: Float32Array,
    seeds: Sequence[int] | SeedArray,
    coefficients: Sequence[float] | Float32Array,
    *,
    start: int = 0,
    stream: int = 0,
    threads: int = 1,
) -> tuple[float, float, float]:
    """a = 0; a = fma(c_i, eps_i, a) in member order; master += a. See `es_mpi.noise.native.update`."""
    check_array("master", master, MASTER, written=True)
    start, stream, _ = check_place(len(master), start, stream, threads)
    words, values = check_terms(seeds, coefficients)
    sums = np.zeros(3)
    for part in _chunks(len(master)):
        before = master[part].copy()
        a = np.zeros_like(before)
        with np.errstate(all="ignore"):
            for seed, coefficient in zip(words.tolist(), values, strict=True):
                a = fma(coefficient, normals(start + part.start, len(a), seed, stream), a)
            after = np.where(a == 0, before, before + a)  # a step of 0 leaves the bits alone, -0 too
            d = _bf16_values(after) - _bf16_values(before)
            master[part] = after
            sums += [np.dot(p.astype(np.float64), q.astype(np.float64)) for p, q in ((a, a), (d, d), (a, d))]
    return float(sums[0]), float(sums[1]), float(sums[2])


def digest(master: Float32Array, *, start: int = 0, threads: int = 1) -> int:
    """sum over g of mix64(bits(master_g) ^ (g + 1) GAMMA) mod 2**64. See `es_mpi.noise.native.digest`."""
    check_array("master", master, MASTER, written=False)
    start, _, _ = check_place(len(master), start, 0, threads)
    total = 0
    for part in _chunks(len(master)):
        g = np.arange(start + part.start + 1, start + part.stop + 1, dtype=np.uint64)
        terms = mix64(master[part].view(np.uint32) ^ (g * np.uint64(GAMMA)))
        total += int(terms.sum(dtype=np.uint64))
    return total % 2**64


def isa() -> str:
    """The name of this implementation."""
    return "reference"


def fnv1a(values: Float32Array, basis: int) -> int:
    """FNV-1a over the little-endian bytes of `values`."""
    return fnv1a64(values.tobytes(), basis)


def _bf16_values(x: Float32Array) -> Float32Array:
    return (bf16_bits(x).astype(np.uint32) << 16).view(np.float32)


def _chunks(n: int) -> Iterator[slice]:
    for first in range(0, n, CHUNK):
        yield slice(first, min(first + CHUNK, n))
