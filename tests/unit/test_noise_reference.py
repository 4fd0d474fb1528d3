"""The reference against exact arithmetic, published words and the formulas it approximates."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from es_mpi.noise import reference
from es_mpi.noise.address import GAMMA, mix64

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "noise.json").read_text())


def nearest(exact: Fraction, dtype: type) -> np.floating:
    """The value of `dtype` nearest to a rational number, ties to even: by trying the neighbours."""
    guess = dtype(float(exact))
    candidates = [np.nextafter(guess, dtype(-65504)), guess, np.nextafter(guess, dtype(65504))]
    word = np.uint32 if dtype is np.float32 else np.uint16
    return min(candidates, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(word)) & 1))


@pytest.mark.parametrize("case", GOLDEN["philox"])
def test_philox_known_answers(case: dict) -> None:
    counter = [np.array([int(word, 16)], np.uint64) for word in case["counter"]]
    k0, k1 = (int(word, 16) for word in case["key"])
    assert [f"{int(word[0]):08x}" for word in reference.philox(counter, k0 | k1 << 32)] == case["words"]


@pytest.mark.parametrize("case", GOLDEN["normals"])
def test_first_normals_are_pinned(case: dict) -> None:
    found = reference.normals(case["start"], 8, case["seed"], case["stream"])
    assert [f"{bits:08x}" for bits in found.view(np.uint32)] == case["bits"]


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=3000).astype(np.float32) for _ in range(2))
    c = (-(a.astype(np.float64) * b) * (1 + rng.normal(size=3000) * 2.0 ** -rng.integers(1, 60, 3000))).astype(np.float32)
    tiny = np.float32(2) ** rng.integers(-70, -60, 3000).astype(np.float32)  # results among the denormals
    for scale in (np.float32(1), tiny):
        x, y, z = a * scale, b * scale, c * scale * scale
        for found, xi, yi, zi in zip(reference.fma(x, y, z), x, y, z, strict=True):
            assert found == nearest(Fraction(float(xi)) * Fraction(float(yi)) + Fraction(float(zi)), np.float32)


def test_fma_breaks_a_tie_by_what_fp64_drops() -> None:
    one, ulp = np.float32(1), np.float32(2.0**-23)
    almost_half_ulp = np.float32(2.0**-24)
    below = reference.fma(np.float32(2.0**-40), np.float32(-(2.0**-40)), one + ulp)  # just below 1 + ulp: rounds to it
    assert below == one + ulp
    factor = np.float32(1 + 2.0**-12)
    square = reference.fma(factor, factor, np.float32(2.0**60))  # far below half a unit
    assert square == np.float32(2.0**60)
    tie = np.float32(1 + 2.0**-23) * np.float32(2.0**-24)  # half a unit of 1, and a little
    assert reference.fma(tie, one, one) == one + ulp
    assert reference.fma(almost_half_ulp, one, one) == one


def test_box_muller_is_the_textbook_transform() -> None:
    rng = np.random.default_rng(2)
    w0, w1 = (rng.integers(0, 2**32, 100_000, dtype=np.uint32) for _ in range(2))
    w0[:3], w1[:3] = [0, 2**32 - 1, 2**31], [0, 2**32 - 1, 2**31]
    z0, z1 = reference.box_muller(w0, w1)
    r = np.sqrt(-2 * np.log((w0.astype(np.float64) + 0.5) / 2**32))
    angle = np.pi * ((w1 & 0x7FFFFF) / 2**23 - 0.5)
    sign = np.where(w1 >> 31, -1, 1)
    bound = 1e-6 * r + 2.0**-23 / r  # of the polynomials; of u, which fp32 rounds twice
    assert (np.abs(z0 - r * np.cos(angle) * sign) < bound).all()
    assert (np.abs(z1 - r * np.sin(angle)) < bound).all()
    assert np.abs(z0).max() <= 6.77


HALF_CASES = np.array(
    [0, 2.0**-150, 2.0**-149, 2.0**-25, 2.0**-24, 1.5 * 2**-24, 2.0**-14, 2.0**-14 - 2.0**-25, 1, 1 + 2.0**-11, 1 + 3 * 2.0**-11,
     1 + 2.0**-8, 1 + 3 * 2.0**-8, 65504, 65519, 65520, 65536, 3.4e38, np.inf], np.float32)  # fmt: skip


def test_fp16_rounds_to_nearest_even() -> None:
    values = np.concatenate([HALF_CASES, -HALF_CASES, np.random.default_rng(3).normal(size=2000).astype(np.float32) * 1e-4])
    for x, found in zip(values, reference.fp16(values), strict=True):
        limit = abs(float(x)) >= 65520
        assert found == (np.sign(x) * np.inf if limit else nearest(Fraction(float(x)), np.float16))
        assert np.signbit(found) == np.signbit(x)


def test_bf16_rounds_to_nearest_even() -> None:
    values = np.concatenate([HALF_CASES, np.random.default_rng(4).normal(size=5000).astype(np.float32)])
    values = np.concatenate([values, -values, np.arange(1, 200_000, 77, dtype=np.uint32).view(np.float32)])  # denormals
    bits = reference.bf16_bits(values)
    below = values.view(np.uint32) >> 16  # toward zero
    rest = values.view(np.uint32) & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (below & 1 == 1))
    assert (bits == below + up).all()


def test_a_nan_stays_a_nan() -> None:
    nans = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    assert ((reference.bf16_bits(nans).astype(np.uint32) << 16).view(np.float32) != 0).all()
    assert np.isnan((reference.bf16_bits(nans).astype(np.uint32) << 16).view(np.float32)).all()
    assert np.isnan(reference.fp16(nans)).all()


def test_digest_known_answers_and_formula() -> None:
    case = GOLDEN["digest"]
    words = [int(word, 16) for word in case["bits"]]
    values = np.array(words, np.uint32).view(np.float32)
    for start in (0, 4294967294):
        expected = sum(mix64(word ^ (start + i + 1) * GAMMA % 2**64) for i, word in enumerate(words)) % 2**64
        assert reference.digest(values, start=start) == expected == int(case[f"start_{start}"], 16)


def test_update_sums_in_member_order_and_adds_once() -> None:
    rng = np.random.default_rng(5)
    theta = rng.normal(size=1001).astype(np.float32)
    seeds, coefficients = [3, 1, 2], [1e-3, -2e-3, 0.5]
    a = np.zeros(1001, np.float32)
    for seed, coefficient in zip(seeds, coefficients, strict=True):
        a = reference.fma(np.float32(coefficient), reference.normals(7, 1001, seed, 0), a)
    master = theta.copy()
    sums = reference.update(master, seeds, coefficients, start=7)
    assert (master == theta + a).all()
    assert sums[0] == pytest.approx(float((a.astype(np.float64) ** 2).sum()))
