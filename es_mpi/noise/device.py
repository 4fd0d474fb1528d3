"""The noise operations on the memory of a GPU, with the bits of es_mpi.noise.native.

Memory is given by address, so that nothing here needs torch: `Buffer(t.data_ptr(), t.numel(), "float32")` of a contiguous
tensor. Kernels are queued on the CUDA stream `queue` (`torch.cuda.current_stream().cuda_stream`) of the context they were
opened in, and run when it comes to them; what they use must live until then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from es_mpi.noise.address import STREAM_WEIGHTS, unsigned
from es_mpi.noise.arguments import check_place, finite32
from es_mpi.noise.library import load

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "uint64": 8, "float64": 8}
WORKING_COPY = ("float32", "bfloat16", "float16")  # in the order of the library's numbers


class NoDevice(Exception):
    """There are no kernels here to work with a GPU, or they failed: the message says why."""


def built() -> bool:
    """Whether the library holds kernels for GPUs: it was built where there was nvcc."""
    library = load()
    return library is not None and bool(library.es_mpi_device_built())


@dataclass(frozen=True, slots=True)
class Buffer:
    """`length` elements of `dtype`, side by side in device memory from `address` on."""

    address: int
    length: int
    dtype: str

    def check(self, name: str, dtypes: tuple[str, ...], length: int | None = None) -> None:
        """Raises ValueError that names `name` unless this is an aligned buffer of one of `dtypes` and of `length`."""
        if self.dtype not in dtypes:
            raise ValueError(f"{name} must be of dtype {' or '.join(dtypes)}, found {self.dtype}")
        if self.length < 0 or (length is not None and self.length != length):
            raise ValueError(f"{name} must have length {'0 or more' if length is None else length}, found {self.length}")
        if self.length and (self.address <= 0 or self.address % SIZES[self.dtype]):
            raise ValueError(f"{name} must be at an address that is a multiple of {SIZES[self.dtype]}, found {self.address:#x}")

    def overlaps(self, other: Buffer) -> bool:
        end, other_end = (b.address + b.length * SIZES[b.dtype] for b in (self, other))
        return bool(self.length and other.length) and self.address < other_end and other.address < end


class DeviceNoise:
    """The kernels, loaded into the CUDA context that is current on this thread. All raise ValueError for an unfit argument
    and NoDevice when the driver refuses."""

    def __init__(self) -> None:
        library = load()
        if library is None:
            raise NoDevice("no kernels for GPUs: there is no native noise library")
        self._library = library
        self._device = ctypes.c_void_p()
        _check(library.es_mpi_device_open(ctypes.byref(self._device)))

    def close(self) -> None:
        """Unload the kernels. The context they were opened in must be current."""
        self._library.es_mpi_device_close(self._device)
        self._device = ctypes.c_void_p()

    def fill(self, out: Buffer, seed: int, *, start: int = 0, stream: int = STREAM_WEIGHTS, queue: int = 0) -> None:
        """See `es_mpi.noise.native.fill`."""
        out.check("out", ("float32",))
        start, stream, _ = check_place(out.length, start, stream, 1)
        self._launch(self._library.es_mpi_device_fill, queue, out.address, out.length, start, unsigned("seed", seed), stream)

    def perturb(
        self,
        out: Buffer,
        master: Buffer,
        seed: int,
        sigma: float,
        *,
        start: int = 0,
        stream: int = STREAM_WEIGHTS,
        queue: int = 0,
    ) -> None:
        """See `es_mpi.noise.native.perturb`; `out` is float32, bfloat16 or float16."""
        master.check("master", ("float32",))
        out.check("out", WORKING_COPY, master.length)
        if out.overlaps(master):
            raise ValueError("out must not overlap master: weights are rebuilt from the master, never in place")
        start, stream, _ = check_place(out.length, start, stream, 1)
        place = (out.length, start, unsigned("seed", seed), stream, finite32("sigma", sigma))
        number = WORKING_COPY.index(out.dtype)
        self._launch(self._library.es_mpi_device_perturb, queue, out.address, number, master.address, *place)

    def update(
        self,
        master: Buffer,
        seeds: Buffer,
        coefficients: Buffer,
        sums: Buffer,
        *,
        start: int = 0,
        stream: int = STREAM_WEIGHTS,
        queue: int = 0,
    ) -> None:
        """See `es_mpi.noise.native.update`. `seeds` is uint64[N], `coefficients` finite float32[N]; the three numbers that
        `native.update` returns are added to `sums`, float64[3], in no fixed order, so their last digits vary."""
        master.check("master", ("float32",))
        seeds.check("seeds", ("uint64",))
        coefficients.check("coefficients", ("float32",), seeds.length)
        sums.check("sums", ("float64",), 3)
        start, stream, _ = check_place(master.length, start, stream, 1)
        terms = (seeds.address, coefficients.address, seeds.length)
        place = (master.address, master.length, start)
        self._launch(self._library.es_mpi_device_update, queue, *place, *terms, stream, sums.address)

    def digest(self, master: Buffer, total: Buffer, *, start: int = 0, queue: int = 0) -> None:
        """See `es_mpi.noise.native.digest`; added modulo 2**64 to `total`, uint64[1]."""
        master.check("master", ("float32",))
        total.check("total", ("uint64",), 1)
        start, _, _ = check_place(master.length, start, STREAM_WEIGHTS, 1)
        self._launch(self._library.es_mpi_device_digest, queue, master.address, master.length, start, total.address)

    def _launch(self, call: Callable[..., bytes | None], queue: int, *arguments: float) -> None:
        if not self._device:
            raise NoDevice("the kernels are closed")
        _check(call(self._device, queue, *arguments))


def _check(error: bytes | None) -> None:
    if error is not None:
        raise NoDevice(error.decode(errors="replace"))
