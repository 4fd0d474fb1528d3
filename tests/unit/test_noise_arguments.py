"""Bad arguments of the noise operations, with and without the library; and how the library is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from es_mpi.errors import UsageError
from es_mpi.noise import library, native, reference

BOTH = pytest.mark.parametrize("noise", [native, reference], ids=["native", "reference"])


def f32(n: int = 8) -> np.ndarray:
    return np.ones(n, np.float32)


def read_only() -> np.ndarray:
    array = f32()
    array.flags.writeable = False
    return array


BAD_ARRAYS = [
    ([1.0], "numpy array of dtype float32, found list"),
    (np.ones(8), "dtype float32, found float64"),
    (np.ones(8, ">f4"), "dtype float32, found >f4"),
    (np.ones((2, 4), np.float32), r"one dimension, found shape \(2, 4\)"),
    (f32(16)[::2], "contiguous"),
    (np.zeros(33, np.uint8)[1:].view(np.float32), "aligned"),
    (read_only(), "writeable"),
]


@BOTH
@pytest.mark.parametrize(("array", "message"), BAD_ARRAYS)
def test_an_unfit_array_is_refused(noise: ModuleType, array: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=f"^out must .*{message}"):
        noise.fill(array, 0)
    with pytest.raises(ValueError, match=f"^master must .*{message}"):
        noise.update(array, [], [])


BAD_PLACES = [
    ({"start": -1}, "start must be in"),
    ({"start": 1 << 64}, "start must be in"),
    ({"start": (1 << 63) - 7}, "start must leave start . n within"),
    ({"stream": -1}, "stream must be in"),
    ({"stream": 1.0}, "stream must be an integer"),
    ({"threads": 0}, r"threads must be in \[1, 1024\], found 0"),
    ({"threads": 1025}, "threads must be in"),
    ({"seed": -1}, "seed must be in"),
    ({"seed": 1 << 64}, "seed must be in"),
    ({"seed": None}, "seed must be an integer, found None"),
]


@BOTH
@pytest.mark.parametrize(("change", "message"), BAD_PLACES)
def test_an_unfit_number_is_named_and_nothing_is_written(noise: ModuleType, change: dict, message: str) -> None:
    out = f32()
    with pytest.raises(ValueError, match=f"^{message}"):
        noise.fill(out, **{"seed": 0, **change})
    with pytest.raises(ValueError, match=f"^{message}"):
        noise.perturb(out, f32(), **{"seed": 0, "sigma": 0.1, **change})
    assert (out == 1).all()


@BOTH
@pytest.mark.parametrize("sigma", [np.nan, np.inf, -np.inf, 1e39, "much"])
def test_sigma_must_be_finite(noise: ModuleType, sigma: float) -> None:
    out = f32()
    with pytest.raises(ValueError, match=r"^sigma must be"):
        noise.perturb(out, f32(), 0, sigma)
    assert (out == 1).all()


@BOTH
def test_pairs_must_fit(noise: ModuleType) -> None:
    both = f32(16)
    with pytest.raises(ValueError, match=r"^out must have the length of master, 8, found 7"):
        noise.perturb(f32(7), f32(8), 0, 0.1)
    with pytest.raises(ValueError, match=r"^out must not overlap master"):
        noise.perturb(both[:8], both[7:15], 0, 0.1)
    with pytest.raises(ValueError, match=r"^out must be a numpy array of dtype float32 or uint16 or float16, found int16"):
        noise.perturb(np.zeros(8, np.int16), f32(), 0, 0.1)
    noise.perturb(both[:8], both[8:], 0, 0.1)


@BOTH
@pytest.mark.parametrize(
    ("seeds", "coefficients", "message"),
    [
        ([1, 2], [0.1], "coefficients must have the length of seeds, 2, found 1"),
        ([1, -1], [0.1, 0.1], "seeds must be in"),
        ([1], [float("nan")], "coefficients must be finite"),
        ([1], [1e39], "coefficients must be finite in fp32, found 1e.39"),
        (np.ones(1, np.uint64), np.full(1, np.inf, np.float32), "coefficients must be finite in fp32, found .*inf"),
        (np.ones(1, np.int64) * -1, [0.1], "seeds must be in"),
    ],
)
def test_terms_must_fit(noise: ModuleType, seeds: list[int], coefficients: list[float], message: str) -> None:
    master = f32()
    with pytest.raises(ValueError, match=f"^{message}"):
        noise.update(master, seeds, coefficients)
    assert (master == 1).all()


@BOTH
def test_length_0_is_the_obvious_nothing(noise: ModuleType) -> None:
    noise.fill(f32(0), 0)
    noise.perturb(np.zeros(0, np.uint16), f32(0), 0, 0.1)
    assert noise.update(f32(0), [1], [0.1]) == (0.0, 0.0, 0.0)
    assert noise.digest(f32(0)) == 0


@BOTH
def test_numpy_integers_and_a_read_only_master_are_welcome(noise: ModuleType) -> None:
    out = f32()
    noise.perturb(
        out, read_only(), np.uint64(2**64 - 1), np.float64(0.1), start=np.int64(3), stream=np.uint64(1), threads=np.int32(1)
    )
    noise.update(out, np.array([1, 2], np.uint64), np.array([0.1, 0.2], np.float32))
    assert noise.digest(read_only(), start=np.int64(3)) == native.digest(f32(), start=3)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_environment_chooses_the_implementation() -> None:
    code = "from es_mpi.noise import native; print(native.isa(), native.noise_hash())"
    expected = native.noise_hash()
    assert run(code, ES_MPI_NOISE="reference").stdout.split() == ["reference", expected]
    assert run(code, ES_MPI_NOISE_ISA="portable").stdout.split() == ["portable", expected]


@pytest.mark.parametrize(("key", "value"), [("ES_MPI_NOISE", "fast"), ("ES_MPI_NOISE_ISA", "avx1024")])
def test_an_unknown_choice_is_an_error(monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    monkeypatch.setenv(key, value)
    with pytest.raises(UsageError, match=f"^{key}: .*\n  found     .*{value}"):
        library.load.__wrapped__()


@pytest.mark.parametrize("broken", [False, True])
def test_without_the_library_one_warning_says_what_it_costs(monkeypatch: pytest.MonkeyPatch, tmp_path, broken: bool) -> None:
    (tmp_path / library.NAME).write_text("not a library")
    monkeypatch.setattr(library, "find", lambda: tmp_path / library.NAME if broken else None)
    with pytest.warns(RuntimeWarning, match="same bits, about 300 times slower") as warned:
        assert library.load.__wrapped__() is None
    assert len(warned) == 1


def test_the_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ABI", 0)
    with pytest.raises(UsageError, match="another version"):
        library.load.__wrapped__()
