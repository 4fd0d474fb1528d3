"""Where randomness lives: every random choice of a run is a pure function of (run seed, purpose, numbers).

All keys are unsigned 64-bit integers, mixed by the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), which is a
bijection of the 64-bit words. GAMMA, the step of splitmix64, is added first so that 0 is as good a seed as any other.

    member_seed = mix64(run_key ^ mix64(update * 2**32 + member)),   run_key = mix64(run_seed + GAMMA)

Two members of one run never share a seed: (update, member) -> counter is injective for update, member < 2**32, and each
further step is a bijection. Two runs share a seed only where mix64(counter) ^ mix64(counter') equals the exclusive or of
their keys, a chance of 2**-64 for each pair of members.
"""

from __future__ import annotations

import operator
from typing import Any, overload

import numpy as np
import numpy.typing as npt

STREAM_WEIGHTS = 0
"""The stream of full-weight perturbations, addressed by the global parameter index. Other streams are reserved."""

GAMMA = 0x9E3779B97F4A7C15
WORD = 0xFFFFFFFFFFFFFFFF
FNV_BASIS = 0xCBF29CE484222325


@overload
def mix64(x: int) -> int: ...
@overload
def mix64(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]: ...
def mix64(x: Any) -> Any:
    """The splitmix64 finaliser, a bijection of 64-bit words, of one word or of each element of a uint64 array."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def unsigned(name: str, value: int, bits: int = 64) -> int:
    """`value` as a plain integer in [0, 2**bits); ValueError that names `name` otherwise."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, found {value!r}") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name} must be in [0, 2**{bits}), found {value}")
    return number


def member_seed(run_seed: int, update: int, member: int) -> int:
    """The noise seed of one member of one update; injective over update, member < 2**32 for a given `run_seed`.

    Raises ValueError when `run_seed` is not in [0, 2**64) or `update` or `member` is not in [0, 2**32).
    """
    counter = unsigned("update", update, 32) << 32 | unsigned("member", member, 32)
    return mix64(_run_key(run_seed) ^ mix64(counter))


def subkey(run_seed: int, purpose: str, *numbers: int) -> int:
    """A key for any other random choice: prompt order, sampling seeds, bootstrap. Unsigned 64 bit.

    `purpose` names the use; `numbers` (each in [0, 2**64), order and count matter) say which choice of that kind.
    Raises ValueError for a number or a `run_seed` outside that range.
    """
    key = mix64(_run_key(run_seed) ^ fnv1a64(purpose.encode()))
    for number in numbers:
        key = mix64(((key ^ unsigned("numbers", number)) + GAMMA) & WORD)
    return key


def permutation(n: int, key: int, count: int | None = None) -> npt.NDArray[np.int64]:
    """A random order of range(n), or the first `count` of it, int64[n or count], the same in every numpy version.

    Element i is sorted by mix64(base + i * GAMMA), base = mix64(key + GAMMA): word i of the splitmix64 stream of `base`.
    These n words are distinct (GAMMA is odd), so the order does not depend on the sorting algorithm.
    Raises ValueError when `n` is negative or `key` is not in [0, 2**64).
    """
    base = mix64((unsigned("key", key) + GAMMA) & WORD)
    index = np.arange(unsigned("n", n, 48), dtype=np.uint64)
    words = mix64(index * np.uint64(GAMMA) + np.uint64(base))
    if count is None or count >= n:
        return np.argsort(words, kind="stable").astype(np.int64)
    first = np.argpartition(words, count)[:count]
    return first[np.argsort(words[first], kind="stable")].astype(np.int64)


def fnv1a64(data: bytes, basis: int = FNV_BASIS) -> int:
    """FNV-1a, 64 bit, of a short byte string (about 0.1 microseconds a byte)."""
    for byte in data:
        basis = (basis ^ byte) * 0x100000001B3 & WORD
    return basis


def _run_key(run_seed: int) -> int:
    return mix64((unsigned("run_seed", run_seed) + GAMMA) & WORD)
