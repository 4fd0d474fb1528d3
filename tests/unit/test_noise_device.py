"""The kernels for GPUs, run on the host through the driver API by tests/host_driver.cpp: the library's bits."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from device_kernels import SOURCE, compiler

from es_mpi.noise import native
from es_mpi.noise.device import Buffer, DeviceNoise, NoDevice

NAMES = {"float32": "float32", "uint16": "bfloat16", "float16": "float16", "uint64": "uint64", "float64": "float64"}
SLICES = [(0, 1), (1, 2), (1, 3), (3, 2), (5, 4096), (1022, 7), (4 * 2**32 - 1029, 3001), (2**63 - 5000, 5000)]


def buffer(array: np.ndarray) -> Buffer:
    return Buffer(array.ctypes.data, len(array), NAMES[array.dtype.name])


def weights(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    kinds = [rng.normal(size=n) * 0.02, rng.normal(size=n) * 1e-40, rng.normal(size=n) * 1e5, -np.zeros(n), np.full(n, np.nan)]
    return np.choose(rng.integers(0, len(kinds), n), kinds).astype(np.float32)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


@compiler
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(("start", "n"), SLICES)
def test_the_kernels_give_the_bits_of_the_library(kernels: DeviceNoise, start: int, n: int, shift: int) -> None:
    """With `shift`, arrays start at odd addresses and their neighbours must stay as they are."""
    theta = weights(n + shift)[shift:]
    seed, stream = 2**64 - 3, 2**40 + 1
    found, expected = np.full(n + shift + 8, 7, np.float32), np.full(n + shift + 8, 7, np.float32)
    kernels.fill(buffer(found[shift : shift + n]), seed, start=start, stream=stream)
    native.fill(expected[shift : shift + n], seed, start=start, stream=stream)
    assert same(found, expected)
    for dtype in (np.float32, np.uint16, np.float16):
        for sigma in (0.0, 1e-3, -3e4):
            out, should = np.full(n + shift + 8, 7, dtype), np.full(n + shift + 8, 7, dtype)
            kernels.perturb(buffer(out[shift : shift + n]), buffer(theta), seed, sigma, start=start)
            native.perturb(should[shift : shift + n], theta, seed, sigma, start=start)
            assert same(out, should)
    total = np.full(1, 5, np.uint64)
    kernels.digest(buffer(theta), buffer(total), start=start)
    assert int(total[0]) == (native.digest(theta, start=start) + 5) % 2**64


@compiler
@pytest.mark.parametrize("members", [0, 1, 3])
@pytest.mark.parametrize(("start", "n"), [(0, 200_000), *SLICES])
def test_update_gives_the_bits_of_the_library(kernels: DeviceNoise, start: int, n: int, members: int) -> None:
    seeds, coefficients = np.array([7, 2**64 - 1, 7][:members], np.uint64), np.array([1e-3, -2e-4, 3e3][:members], np.float32)
    found, expected, sums = weights(n), weights(n), np.zeros(3)
    kernels.update(buffer(found), buffer(seeds), buffer(coefficients), buffer(sums), start=start)
    measured = native.update(expected, seeds, coefficients, start=start)
    assert same(found, expected)
    assert sums == pytest.approx(measured, rel=1e-5, nan_ok=True)


@compiler
def test_a_driver_that_refuses_is_heard(kernels: DeviceNoise, driver: ctypes.CDLL) -> None:
    out = np.zeros(8, np.float32)
    try:
        driver.host_driver_refuse(2)
        with pytest.raises(NoDevice, match="es_mpi_fill: refused"):
            kernels.fill(buffer(out), 1)
        with pytest.raises(NoDevice, match="the noise kernels do not load: refused"):
            DeviceNoise()
        driver.host_driver_refuse(0)
        driver.host_driver_context(0)
        with pytest.raises(NoDevice, match="no CUDA context: none is current"):
            DeviceNoise()
    finally:
        driver.host_driver_refuse(0)
        driver.host_driver_context(1)
    kernels.close()
    with pytest.raises(NoDevice, match="closed"):
        kernels.fill(buffer(out), 1)
    assert not out.any()


@compiler
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, b: n.fill(Buffer(b.address, 8, "bfloat16"), 0), "out must be of dtype float32, found bfloat16"),
        (lambda n, b: n.fill(Buffer(b.address, -1, "float32"), 0), "out must have length 0 or more, found -1"),
        (lambda n, b: n.fill(Buffer(b.address + 2, 4, "float32"), 0), "out must be at an address that is a multiple of 4"),
        (lambda n, b: n.fill(Buffer(0, 4, "float32"), 0), "out must be at an address"),
        (lambda n, b: n.fill(b, -1), "seed must be in"),
        (lambda n, b: n.fill(b, 0, start=2**63 - 7), "start must leave"),
        (lambda n, b: n.perturb(b, Buffer(b.address + 4, 8, "float32"), 0, 0.1), "out must not overlap master"),
        (lambda n, b: n.perturb(b, Buffer(b.address + 32, 7, "float32"), 0, 0.1), "out must have length 7, found 8"),
        (lambda n, b: n.perturb(b, Buffer(b.address + 32, 8, "float32"), 0, np.nan), "sigma must be finite"),
        (lambda n, b: n.update(b, Buffer(8, 2, "uint64"), Buffer(8, 1, "float32"), b), "coefficients must have length 2"),
        (lambda n, b: n.update(b, Buffer(8, 0, "uint64"), Buffer(8, 0, "float32"), b), "sums must be of dtype float64"),
        (lambda n, b: n.digest(b, Buffer(8, 2, "uint64")), "total must have length 1, found 2"),
    ],
)
def test_an_unfit_argument_is_named_and_nothing_is_written(kernels: DeviceNoise, call, message: str) -> None:
    memory = np.full(16, 7, np.float32)
    with pytest.raises(ValueError, match=f"^{message}"):
        call(kernels, buffer(memory[:8]))
    assert (memory == 7).all()


@compiler
def test_length_0_is_the_obvious_nothing(kernels: DeviceNoise) -> None:
    none, sums = Buffer(0, 0, "float32"), np.zeros(3)
    kernels.fill(none, 0)
    kernels.perturb(none, none, 0, 0.1)
    kernels.update(none, Buffer(0, 0, "uint64"), none, buffer(sums))
    assert not sums.any()


def test_without_a_driver_the_reason_is_given() -> None:
    code = "from es_mpi.noise import device as d\ntry:\n    d.DeviceNoise()\nexcept d.NoDevice as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(("no CUDA driver: libcuda.so.1", "no kernels for GPUs: ", "no CUDA context: "))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="compiles the device kernels with nvcc")
def test_what_nvcc_makes_rounds_every_operation_by_itself(tmp_path: Path) -> None:
    """No contraction, nothing flushed to zero, no approximation: only operations that IEEE 754 rounds."""
    ptx = tmp_path / "device.ptx"
    command = ["nvcc", "-std=c++17", "-O3", "--fmad=false", "-ptx", "-arch=compute_75", str(SOURCE / "device.cu"), "-o", str(ptx)]
    subprocess.run(command, check=True, timeout=120)
    text = ptx.read_text(encoding="utf-8")
    assert "fma.rn.f32" in text and "sqrt.rn.f32" in text
    assert not [word for word in (".ftz", ".approx", "mad.f32", "fma.rn.ftz", "div.full") if word in text]
