"""Every radius word and every angle word there is, on every instruction set; and noise by the hundred million."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import erfc, sqrt

import numpy as np
import pytest

from es_mpi.noise import native, reference
from es_mpi.noise.address import member_seed
from es_mpi.noise.library import load

LIBRARY = load()
CHUNK = 1 << 20


def _here() -> list[str]:
    """The instruction sets that this machine has, the fastest first and chosen again."""
    assert LIBRARY is not None
    found = [isa for isa in ("portable", "avx2", "avx512") if LIBRARY.es_mpi_noise_select(isa.encode())]
    LIBRARY.es_mpi_noise_select(b"")
    return found[::-1]


ISAS = _here()


@pytest.fixture
def select():
    """Choose an instruction set for one test."""
    assert LIBRARY is not None
    fastest = native.isa()
    yield lambda isa: LIBRARY.es_mpi_noise_select(isa.encode())
    LIBRARY.es_mpi_noise_select(fastest.encode())


def normals_of(radii: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z0, z1 = np.empty(len(radii), np.float32), np.empty(len(radii), np.float32)
    LIBRARY.es_mpi_noise_normals_of(*(array.ctypes.data for array in (z0, z1, radii, angles)), len(radii))
    return z0, z1


def digest_of(first: int) -> int:
    """A digest of the normals of the radius words [first, first + CHUNK), with as many other angle words: an odd factor makes
    every angle of every radius, each once."""
    radii = np.arange(first, first + CHUNK, dtype=np.uint32)
    z0, z1 = normals_of(radii, radii * np.uint32(0x9E3779B1))
    return native.digest(z0, start=2 * first) + native.digest(z1, start=2 * first + CHUNK)


@pytest.mark.parametrize("isa", ISAS)
def test_a_sample_of_words_gives_the_normals_of_the_specification(select, isa: str) -> None:
    """The ends, where exponents change, and random words: what the exhaustive test below extends to all of them."""
    assert select(isa)
    powers = np.concatenate([np.arange(-64, 64) + (1 << k) for k in range(7, 32)])
    edges = np.concatenate([np.arange(1 << 12), np.arange(2**32 - (1 << 12), 2**32), powers])
    random = np.random.default_rng(0).integers(0, 2**32, (1 << 17) - len(edges))
    w = np.concatenate([edges, random]).astype(np.uint32)
    for radii, angles in ((w, w[::-1].copy()), (w, w)):
        for found, expected in zip(normals_of(radii, angles), reference.box_muller(radii, angles), strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.slow  # minutes, most of them for the portable build
@pytest.mark.timeout(1800)
def test_all_words_give_the_same_normals_on_every_instruction_set(select) -> None:
    sums = {}
    for isa in ISAS:
        assert select(isa)
        with ThreadPoolExecutor() as pool:
            sums[isa] = sum(pool.map(digest_of, range(0, 2**32, CHUNK))) % 2**64
    assert len(sums) > 1 and len(set(sums.values())) == 1, sums


@pytest.mark.slow  # half a minute
def test_a_hundred_million_samples_are_normal() -> None:
    """Moments to the sixth, Kolmogorov-Smirnov, tails beyond 5 sigma, each within 5 standard deviations of its own."""
    n, parts = 10**8, 25
    moments, tails, above = np.zeros(7), {4.0: 0, 5.0: 0, 5.5: 0}, np.zeros(601)
    grid = np.linspace(-3, 3, 601)
    z = np.empty(n // parts, np.float32)
    for part in range(parts):
        native.fill(z, 2024, start=part * len(z), threads=2)
        wide = z.astype(np.float64)
        moments += [np.sum(wide**k) for k in range(7)]
        for level in tails:
            tails[level] += int((np.abs(z) > level).sum())
        above += np.searchsorted(np.sort(z), grid)
    for power, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (5, 0, 945), (6, 15, 10170)]:
        assert abs(moments[power] / n - mean) < 5 * sqrt(variance / n), power
    cdf = np.array([erfc(-x / sqrt(2)) / 2 for x in grid])
    assert np.abs(above / n - cdf).max() < 2.0 / sqrt(n)  # exceeded by chance once in 1500 runs of other seeds
    for level, count in tails.items():
        expected = n * erfc(level / sqrt(2))
        assert abs(count - expected) < 5 * sqrt(expected), level


@pytest.mark.slow  # half a minute
def test_a_hundred_million_samples_of_seeds_and_tensors_are_uncorrelated() -> None:
    """Members of a run, neighbouring seeds, and equal tensors side by side: every pair of eight arrays."""
    n, part = 10**8, 4 * 10**6
    places = [(member_seed(0, 0, m), 0) for m in range(3)] + [(member_seed(0, 1, 0), 0), (0, 0), (1, 0)]
    places += [(0, 2**30), (0, 2**30 + 1024)]  # two tensors, and one that begins 1024 elements later
    products = np.zeros((len(places), len(places)))
    for first in range(0, n, part):
        z = np.empty((len(places), part), np.float32)
        for row, (seed, base) in zip(z, places, strict=True):
            native.fill(row, seed, start=base + first, threads=2)
        products += z.astype(np.float64) @ z.T.astype(np.float64)
    correlations = products / n - np.eye(len(places))
    assert np.abs(correlations[~np.eye(len(places), dtype=bool)]).max() < 5 / sqrt(n)
    assert np.abs(np.diag(correlations)).max() < 5 * sqrt(2 / n)
