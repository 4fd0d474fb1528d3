"""The noise kernels on a real GPU. They ran on none so far: run this first where there is one (pytest -m gpu)."""

from __future__ import annotations

import numpy as np
import pytest

from es_mpi.noise import native
from es_mpi.noise.device import Buffer, DeviceNoise

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

SLICES = [(0, 1), (1, 3), (1023, 2), (4 * 2**32 - 1029, 3001), (2**45 + 3, 3_000_001), (2**63 - 5000, 5000)]


@pytest.fixture(scope="module")
def noise() -> DeviceNoise:
    torch.zeros(1, device="cuda")  # makes the context
    return DeviceNoise()


def queue() -> int:
    return int(torch.cuda.current_stream().cuda_stream)


def test_golden_value(noise: DeviceNoise) -> None:
    from es_mpi.noise.address import FNV_BASIS
    from es_mpi.noise.library import load

    eps = torch.empty(1 << 22, device="cuda")
    noise.fill(Buffer(eps.data_ptr(), len(eps), "float32"), 42, queue=queue())
    found, library = eps.cpu().numpy(), load()
    assert library is not None
    assert f"{library.es_mpi_noise_fnv1a(found.ctypes.data, found.nbytes, native.GOLDEN_BASIS):016x}" == native.GOLDEN
    assert f"{library.es_mpi_noise_fnv1a(found.ctypes.data, found.nbytes, FNV_BASIS):016x}" == "0845d79e8a2addaf"


@pytest.mark.parametrize(("start", "n"), SLICES)
def test_operations_have_the_bits_of_the_host(noise: DeviceNoise, start: int, n: int) -> None:
    from es_mpi.engine.device_master import DeviceMaster

    theta = np.empty(n, np.float32)
    native.fill(theta, 3, start=start)
    master = DeviceMaster(theta, torch.device("cuda", torch.cuda.current_device()))
    place = Buffer(master.tensor.data_ptr(), n, "float32")
    for name, torch_dtype, dtype in (
        ("bfloat16", torch.bfloat16, np.uint16),
        ("float16", torch.float16, np.float16),
        ("float32", torch.float32, np.float32),
    ):
        out, expected = torch.empty(n, dtype=torch_dtype, device="cuda"), np.empty(n, dtype)
        noise.perturb(Buffer(out.data_ptr(), n, name), place, 9, -1e-2, start=start, queue=queue())
        native.perturb(expected, theta, 9, -1e-2, start=start)
        bits = torch.int16 if dtype != np.float32 else torch.int32
        assert out.cpu().view(bits).numpy().tobytes() == expected.tobytes()
    seeds, coefficients = np.array([1, 2**64 - 1, 7], np.uint64), np.array([1e-3, -2e-3, 0.5], np.float32)
    sums = master.update([(0, n)], seeds, coefficients)
    assert sums == pytest.approx(native.update(theta, seeds, coefficients), rel=1e-5)
    assert master.digest() == native.digest(theta)


def test_the_proof_of_the_engine_passes() -> None:
    from es_mpi.engine.device_master import prove

    prove(torch.device("cuda", torch.cuda.current_device()))
