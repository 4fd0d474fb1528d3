"""The kernels for GPUs on the host: a CUDA driver without a GPU (host_driver.cpp), and the library's way to it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from es_mpi.noise import device, library
from es_mpi.noise.device import DeviceNoise

REPO = Path(__file__).resolve().parents[1]
SOURCE = REPO / "es_mpi" / "noise" / "csrc"
EXACT = ["-O2", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", f"-I{SOURCE}"]

compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="compiles the device kernels for the host with g++")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A libcuda.so.1 without a GPU, open: the library finds it by that name."""
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = REPO / "tests" / "host_driver.cpp"
    subprocess.run(["g++", *EXACT, "-Wl,-soname,libcuda.so.1", str(source), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


@pytest.fixture
def kernels(
    driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DeviceNoise]:
    """The kernels by way of es_mpi/noise/csrc/device.cpp, built with an image whether there is nvcc or not."""
    path = tmp_path_factory.getbasetemp() / "device.so"
    if not path.exists():
        image = f'-DES_MPI_DEVICE_IMAGE="{REPO / "LICENSE"}"'
        subprocess.run(["g++", *EXACT, image, str(SOURCE / "device.cpp"), "-o", str(path), "-ldl"], check=True)
    built = ctypes.CDLL(str(path))
    library.declare(built, "es_mpi_device", library.DEVICE_SIGNATURES)
    monkeypatch.setattr(device, "load", lambda: built)
    opened = DeviceNoise()
    yield opened
    opened.close()
