"""What the noise must be as noise, and the trainer's promises about weights that rest on it alone."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest

from es_mpi.noise import native
from es_mpi.noise.address import member_seed

N = 1 << 20


def eps(seed: int, n: int = N, start: int = 0, stream: int = 0) -> np.ndarray:
    out = np.empty(n, np.float32)
    native.fill(out, seed, start=start, stream=stream)
    return out


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.dot(x.astype(np.float64), y) / np.sqrt(np.dot(x.astype(np.float64), x) * np.dot(y.astype(np.float64), y)))


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_moments_are_those_of_a_standard_normal(seed: int) -> None:
    z = eps(seed).astype(np.float64)
    # k-th moments and the standard deviations of z^k: sqrt(E z^2k - (E z^k)^2)
    for power, mean, deviation in [
        (1, 0, 1),
        (2, 1, np.sqrt(2)),
        (3, 0, np.sqrt(15)),
        (4, 3, np.sqrt(96)),
        (6, 15, np.sqrt(10170)),
    ]:
        assert abs((z**power).mean() - mean) < 5 * deviation / np.sqrt(N)


def test_distribution_is_normal() -> None:
    z = np.sort(eps(1))
    inner = z[:: N // 4096]  # Kolmogorov-Smirnov on a grid of order statistics
    cdf = np.array([(1 + erf(x / sqrt(2))) / 2 for x in inner])
    assert np.abs(cdf - np.arange(len(inner)) * (N // 4096) / N).max() < 2.0 / np.sqrt(N)


def test_tails_are_filled() -> None:
    z = np.abs(np.concatenate([eps(seed) for seed in range(4)]))
    for level, probability in [(3, 2.6998e-3), (4, 6.3342e-5)]:
        expected = 4 * N * probability
        assert abs((z > level).sum() - expected) < 5 * np.sqrt(expected)


def test_neighbours_are_uncorrelated() -> None:
    z = eps(3)
    for lag in [1, 2, 3, 4, 5, 8, 128, 1024]:
        assert abs(correlation(z[lag:], z[:-lag])) < 5 / np.sqrt(N - lag)
        assert abs(correlation(z[lag:] ** 2 - 1, z[:-lag] ** 2 - 1)) < 5 / np.sqrt(N - lag)


def test_seeds_members_and_streams_are_uncorrelated() -> None:
    arrays = [
        eps(0),
        eps(1),
        eps(2**32),
        eps(0, stream=1),
        eps(member_seed(0, 0, 0)),
        eps(member_seed(0, 0, 1)),
        eps(member_seed(0, 1, 0)),
    ]
    for i, x in enumerate(arrays):
        for y in arrays[:i]:
            assert abs(correlation(x, y)) < 5 / np.sqrt(N)


def test_two_equal_layers_get_different_uncorrelated_noise() -> None:
    """VsonicV/es-at-scale 46: bases are 1024 elements apart, and each member gives the two layers other noise."""
    layers = np.array([[eps(member_seed(0, 0, member), n=16, start=base) for base in (0, 1024)] for member in range(2000)])
    assert (layers[:, 0] != layers[:, 1]).mean() > 0.99
    assert abs(correlation(layers[:, 0].ravel(), layers[:, 1].ravel())) < 5 / np.sqrt(32_000)


def test_length_does_not_change_the_prefix() -> None:
    """pytorch 80202."""
    longest = eps(5, n=5000, start=2048)
    for n in [1, 15, 16, 17, 1023, 1024, 1025]:
        assert (eps(5, n=n, start=2048) == longest[:n]).all()


def test_thirty_members_and_back_changes_no_weight() -> None:
    """vllm 26243, MeZO 42: the working copy is rebuilt from the master, never undone."""
    master = (eps(9, n=1_000_000) * np.float32(0.02)).astype(np.float32)
    centre, copy = np.empty(len(master), np.uint16), np.empty(len(master), np.uint16)
    native.perturb(centre, master, 0, 0.0)
    for member in range(30):
        native.perturb(copy, master, member_seed(0, 0, member), 1e-3)
    assert (copy != centre).mean() > 0.9
    native.perturb(copy, master, 0, 0.0)
    assert (copy == centre).all()


def test_coefficients_of_zero_leave_every_bit() -> None:
    """ms-swift 9060, also for weights that are -0."""
    master = np.array([0.0, -0.0, 1.5, -2e-40, 1e38] * 1000, np.float32)
    before = master.view(np.uint32).copy()
    for update in range(20):
        assert native.update(master, [member_seed(0, update, m) for m in range(4)], [0.0] * 4) == (0.0, 0.0, 0.0)
    assert (master.view(np.uint32) == before).all()


def test_small_updates_add_up() -> None:
    """A weight of .02 and +1e-5 an update is .022 after 200: in bf16 it would not move at all."""
    master = np.full(4, 0.02, np.float32)
    for _ in range(200):
        native.update(master[:1], [1], [1e-5 / float(eps(1, n=1)[0])])
    assert master[0] == pytest.approx(0.022, rel=1e-5)


def test_antithetic_halves_mirror_each_other() -> None:
    zero = np.zeros(4096, np.float32)
    plus, minus = np.empty(4096, np.float32), np.empty(4096, np.float32)
    native.perturb(plus, zero, 3, 0.01)
    native.perturb(minus, zero, 3, -0.01)
    assert (plus == -minus).all()
