"""The native library: the reference's bits on every instruction set, number of threads and slice."""

from __future__ import annotations

import contextlib
import ctypes
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from es_mpi.noise import native, reference
from es_mpi.noise.library import load

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "noise.json").read_text())
LIBRARY = load()
FASTEST = native.isa()
AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"]
ISAS = [isa for isa in ("avx512bf16", "avx512", "avx2", "portable") if LIBRARY and LIBRARY.es_mpi_noise_select(isa.encode())]
if LIBRARY:
    LIBRARY.es_mpi_noise_select(FASTEST.encode())
CROSSING = 4 * 2**32  # the element where the block number passes 2^32
SLICES = [(0, 1), (1, 3), (1023, 2), (5, 4096), (1000, 2048), (CROSSING - 1029, 3001), (2**45 + 3, 70_001), (2**63 - 5000, 5000)]


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    assert LIBRARY is not None
    assert LIBRARY.es_mpi_noise_select(request.param.encode())
    yield request.param
    LIBRARY.es_mpi_noise_select(FASTEST.encode())


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint16)


def weights(n: int, seed: int = 0) -> np.ndarray:
    """Weights of all kinds: usual ones, denormals, both zeros, ties, beyond the range of fp16, infinite, NaN."""
    rng = np.random.default_rng(seed)
    kinds = [rng.normal(size=n) * 0.02, rng.normal(size=n) * 1e-40, rng.normal(size=n) * 1e5, np.zeros(n), -np.zeros(n)]
    theta = np.choose(rng.integers(0, len(kinds), n), kinds).astype(np.float32)
    theta[3::97] = np.float32(1 + 2.0**-8)
    theta[5::101] = [np.inf, -np.inf, np.nan, 2.0**-24, 65520][n % 5]
    theta.view(np.uint32)[7::103] = [0x7FFFFFFF, 0x7F800001, 0xFF800001][n % 3]  # NaNs that rounding could break
    return theta


def test_the_library_is_built_and_found() -> None:
    assert LIBRARY is not None, "build it: pip install -e . (or ./launch/test)"
    assert ISAS[-1] == "portable"
    assert native.isa() == FASTEST in ISAS


def test_golden_hash(isa: str) -> None:
    assert native.isa() == isa
    assert native.self_test() == native.GOLDEN == GOLDEN["fnv1a_of_2e22_normals_seed_42"]
    assert native.noise_hash() == GOLDEN["digest_of_1e6_normals_seed_42"]


@pytest.mark.parametrize(("start", "n"), SLICES)
def test_fill_equals_the_reference(isa: str, start: int, n: int) -> None:
    found, expected = np.empty(n, np.float32), np.empty(n, np.float32)
    native.fill(found, 2**64 - 3, start=start, stream=2**40 + 1)
    reference.fill(expected, 2**64 - 3, start=start, stream=2**40 + 1)
    assert (bits(found) == bits(expected)).all()


@pytest.mark.parametrize("sigma", [0.0, 1e-3, -1e-3, 1e-39, 3e4])
@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.float16])
def test_perturb_equals_the_reference(isa: str, dtype: type, sigma: float) -> None:
    for start, n in SLICES:
        theta = weights(n)
        found, expected = np.empty(n, dtype), np.empty(n, dtype)
        native.perturb(found, theta, 11, sigma, start=start)
        reference.perturb(expected, theta, 11, sigma, start=start)
        assert (bits(found) == bits(expected)).all()
        assert (bits(theta) == bits(weights(n))).all()


@pytest.mark.parametrize("members", [0, 1, 3])
def test_update_equals_the_reference(isa: str, members: int) -> None:
    seeds, coefficients = [7, 2**64 - 1, 7][:members], [1e-3, -2e-4, 3e30][:members]
    for start, n in SLICES:
        found, expected = weights(n), weights(n)
        native.update(found, seeds, coefficients, start=start)
        reference.update(expected, seeds, coefficients, start=start)
        assert (bits(found) == bits(expected)).all()


def test_update_sums_measure_the_step(isa: str) -> None:
    theta = np.random.default_rng(0).normal(size=100_003).astype(np.float32)
    found = native.update(theta.copy(), [1, 2, 3], [1e-3, 2e-3, -1e-3], start=5)
    expected = reference.update(theta.copy(), [1, 2, 3], [1e-3, 2e-3, -1e-3], start=5)
    assert found == pytest.approx(expected, rel=1e-5)
    assert found == native.update(theta.copy(), [1, 2, 3], [1e-3, 2e-3, -1e-3], start=5, threads=7)


@pytest.mark.parametrize("threads", range(1, 8))
def test_threads_do_not_change_bits(threads: int) -> None:
    n, start = 400_003, 2**34 - 200_001
    theta = np.random.default_rng(0).normal(size=n).astype(np.float32)
    results = []
    for count in (1, threads):
        eps, copy, master = np.empty(n, np.float32), np.empty(n, np.uint16), theta.copy()
        native.fill(eps, 1, start=start, threads=count)
        native.perturb(copy, theta, 1, 0.1, start=start, threads=count)
        native.update(master, [1, 2], [0.1, 0.2], start=start, threads=count)
        results.append((bits(eps), copy, bits(master), np.array(native.digest(theta, start=start, threads=count))))
    for one, many in zip(*results, strict=True):
        assert (one == many).all()


@pytest.mark.parametrize(("start", "n"), [*SLICES, (9, 0)])
def test_digest_equals_the_reference_and_adds_up_over_parts(isa: str, start: int, n: int) -> None:
    theta = weights(n)
    whole = native.digest(theta, start=start)
    assert whole == reference.digest(theta, start=start)
    cut = n // 3
    assert (native.digest(theta[:cut], start=start) + native.digest(theta[cut:], start=start + cut)) % 2**64 == whole


def test_digest_sees_every_single_bit_and_every_exchange() -> None:
    theta = np.random.default_rng(0).normal(size=64).astype(np.float32)
    digests = {native.digest(theta)}
    for i in range(64):
        for bit in range(32):
            changed = theta.copy()
            changed.view(np.uint32)[i] ^= np.uint32(1 << bit)
            digests.add(native.digest(changed))
    for i in range(1, 64):
        changed = theta.copy()
        changed[[0, i]] = changed[[i, 0]]
        digests.add(native.digest(changed))
    assert len(digests) == 1 + 64 * 32 + 63


@contextlib.contextmanager
def unusual_mxcsr() -> Iterator[tuple[ctypes.CDLL, bytes]]:
    """This thread rounds upward and flushes denormals, as a library loaded before might have left it."""
    libm = ctypes.CDLL("libm.so.6")
    saved, unusual = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    ctypes.memmove(unusual, saved, 32)
    mxcsr = int.from_bytes(saved[28:32], "little") | 0x8040 | 0x4000  # flush to zero, denormals are zero; upward
    unusual[28:32] = mxcsr.to_bytes(4, "little")
    libm.fesetenv(unusual)
    try:
        yield libm, unusual.raw
    finally:
        libm.fesetenv(saved)


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="sets MXCSR through glibc")
def test_callers_rounding_mode_changes_no_bits_and_stays(isa: str) -> None:
    n, sigma = 200_000, 2.0**-120  # small enough for denormal weights to matter
    theta = weights(n)
    expected, found = np.empty(n, np.float32), np.empty(n, np.float32)
    native.perturb(expected, theta, 1, sigma)
    after = ctypes.create_string_buffer(32)
    with unusual_mxcsr() as (libm, unusual):
        native.perturb(found, theta, 1, sigma, threads=2)
        libm.fegetenv(after)
    assert (bits(found) == bits(expected)).all()
    assert after.raw[28:32] == unusual[28:32]


@pytest.mark.skipif(not {"g++", "nm"} <= {name for name in ("g++", "nm") if shutil.which(name)}, reason="compiles with g++")
@pytest.mark.parametrize("flags", [[], ["-mavx2", "-mfma"], AVX512, [*AVX512, "-mavx512bf16"]])
def test_an_object_of_one_instruction_set_shares_no_symbol(tmp_path: Path, flags: list[str]) -> None:
    """A template of the standard library compiled there would be a weak symbol, which a linker may pick for all: an illegal
    instruction on an older machine. Each object defines its table alone and needs only C functions."""
    if flags and platform.machine() != "x86_64":
        pytest.skip("an instruction set of x86")
    source = Path(__file__).parents[2] / "es_mpi" / "noise" / "csrc" / "kernels.cpp"
    made = tmp_path / "kernels.o"
    exact = ["-O1", "-std=c++17", "-fPIC", "-fno-math-errno", "-ffp-contract=off", "-w", "-DES_MPI_ISA=one"]
    subprocess.run(["g++", *exact, *flags, "-c", str(source), "-o", str(made)], check=True, timeout=120)
    lines = subprocess.run(["nm", str(made)], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = {(line.split()[-2], line.split()[-1]) for line in lines}
    outside = {(kind, name) for kind, name in symbols if kind.isupper()}
    assert {name for kind, name in outside if kind != "U"} == {"es_mpi_kernels_one"}
    plain = {"memcpy", "memset", "fmaf", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
    assert {name for kind, name in outside if kind == "U"} <= plain
