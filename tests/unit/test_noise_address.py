"""Seeds and keys: known answers, no collisions, ranges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from es_mpi.noise.address import GAMMA, WORD, fnv1a64, member_seed, mix64, permutation, subkey

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "noise.json").read_text())


def unmix64(x: int) -> int:
    """The inverse of mix64: proof that it is a bijection wherever it undoes it."""
    x ^= x >> 31 ^ x >> 62
    x = x * pow(0x94D049BB133111EB, -1, 1 << 64) & WORD
    x ^= x >> 27 ^ x >> 54
    x = x * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & WORD
    return x ^ x >> 30 ^ x >> 60


def test_mix64_gives_the_published_words_of_splitmix64() -> None:
    found = [f"{mix64((i + 1) * GAMMA & WORD):016x}" for i in range(3)]
    assert found == GOLDEN["splitmix64_from_0"]


def test_mix64_of_an_array_is_mix64_of_each() -> None:
    words = np.array([0, 1, GAMMA, WORD], np.uint64)
    assert mix64(words).tolist() == [mix64(int(word)) for word in words]


@pytest.mark.parametrize("run_seed", [0, 1, 42, WORD])
def test_member_seed_can_be_inverted_so_no_two_members_share_one(run_seed: int) -> None:
    key = mix64((run_seed + GAMMA) & WORD)
    edge = [0, 1, 2, 31, 2**16, 2**31, 2**32 - 1]
    for update in edge:
        for member in edge:
            counter = unmix64(unmix64(member_seed(run_seed, update, member)) ^ key)
            assert (counter >> 32, counter & 0xFFFFFFFF) == (update, member)


def test_neighbouring_run_seeds_share_no_member_seed() -> None:
    runs = [{member_seed(run, update, member) for update in range(50) for member in range(64)} for run in range(8)]
    assert len(set().union(*runs)) == 8 * 50 * 64


def test_one_changed_input_changes_half_of_the_seed_bits() -> None:
    base = member_seed(0, 0, 0)
    others = [member_seed(0, 0, 1 << k) for k in range(32)] + [member_seed(0, 1 << k, 0) for k in range(32)]
    others += [member_seed(1 << k, 0, 0) for k in range(64)]
    flipped = [(base ^ other).bit_count() for other in others]
    assert 30 < np.mean(flipped) < 34
    assert min(flipped) > 12


@pytest.mark.parametrize(("arguments", "expected"), GOLDEN["member_seed"])
def test_member_seed_known_answers(arguments: list[int], expected: str) -> None:
    assert f"{member_seed(*arguments):016x}" == expected


@pytest.mark.parametrize(("arguments", "expected"), GOLDEN["subkey"])
def test_subkey_known_answers(arguments: list, expected: str) -> None:
    assert f"{subkey(*arguments):016x}" == expected


def test_subkeys_differ_by_purpose_order_and_count() -> None:
    keys = [subkey(0, "a"), subkey(0, "b"), subkey(0, "a", 0), subkey(0, "a", 0, 0), subkey(0, "a", 1, 2), subkey(0, "a", 2, 1)]
    assert len(set(keys)) == len(keys)


def test_permutation_known_answer() -> None:
    case = GOLDEN["permutation"]
    order = permutation(case["n"], case["key"])
    assert order.tolist() == case["order"]
    assert order.dtype == np.int64


def test_permutation_is_one_and_every_place_is_equally_likely() -> None:
    n, keys = 7, 4000
    orders = np.array([permutation(n, subkey(0, "test", k)) for k in range(keys)])
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    counts = np.array([np.bincount(orders[:, place], minlength=n) for place in range(n)])
    chi_square = ((counts - keys / n) ** 2 / (keys / n)).sum()  # (n - 1)^2 = 36 degrees of freedom
    assert chi_square < 36 + 5 * np.sqrt(2 * 36)


@pytest.mark.parametrize("count", [0, 1, 57, 999, 1000, 2000])
def test_the_first_of_a_permutation_are_those_of_the_whole(count: int) -> None:
    assert permutation(1000, 7, count).tolist() == permutation(1000, 7)[:count].tolist()


def test_permutation_of_nothing() -> None:
    assert permutation(0, 1).tolist() == []


@pytest.mark.parametrize(
    ("text", "expected"), [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)]
)
def test_fnv1a64_published_answers(text: bytes, expected: int) -> None:
    assert fnv1a64(text) == expected


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: member_seed(-1, 0, 0), "run_seed"),
        (lambda: member_seed(1 << 64, 0, 0), "run_seed"),
        (lambda: member_seed(0, 1 << 32, 0), "update"),
        (lambda: member_seed(0, 0, 1 << 32), "member"),
        (lambda: member_seed(0, 0, 1.5), "member"),  # type: ignore[arg-type]
        (lambda: subkey(0, "a", -1), "numbers"),
        (lambda: permutation(-1, 0), "n"),
        (lambda: permutation(3, -1), "key"),
    ],
)
def test_a_number_out_of_range_is_named(call, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        call()
