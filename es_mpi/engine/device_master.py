"""theta in the memory of a GPU, where a member is written and an update applied at the speed of that memory.

It has the bits of the host's kernels, which `open_device_master` proves on this machine before anything relies on it: ranks
with and without it, and with other GPUs, stay equal. `es_mpi.params.store.MasterStore` hands theta over and gets it back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from es_mpi.errors import EngineError
from es_mpi.noise import native
from es_mpi.noise.arguments import Float32Array, SeedArray
from es_mpi.noise.device import Buffer, DeviceNoise, NoDevice
from es_mpi.params.store import MasterStore
from es_mpi.planning import master_on_device

PROBE = 70_001  # elements of the proof, from an odd address on
PROBE_START, PROBE_SIGMA = 2**34 - 35_001, 1e-2
PROBE_SEEDS, PROBE_COEFFICIENTS = np.array([1, 2**63 + 5], np.uint64), np.array([1e-3, -2e-3], np.float32)


class DeviceMaster:
    """A float32 tensor [elements] on `device` and the operations of the noise on it, queued on torch's current stream."""

    def __init__(self, theta: Float32Array, device: torch.device) -> None:
        self.device = device
        self.tensor = torch.empty(len(theta), dtype=torch.float32, device=device)
        self.tensor.copy_(torch.from_numpy(theta))
        self.noise = DeviceNoise()

    def write(self, out: torch.Tensor, start: int, seed: int, sigma: float) -> None:
        """RNE(theta + sigma * eps(seed)) of the elements from `start` on, into `out`, contiguous on the device."""
        master = self.tensor[start : start + out.numel()]
        self.noise.perturb(_buffer(out), _buffer(master), seed, sigma, start=start, queue=self._queue)

    def update(
        self, ranges: Sequence[tuple[int, int]], seeds: SeedArray, coefficients: Float32Array
    ) -> tuple[float, float, float]:
        """See `es_mpi.noise.native.update`, over each [begin, end) of `ranges`."""
        terms = self._moved(seeds), self._moved(coefficients)
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for begin, end in ranges:
            buffers = [_buffer(t) for t in (self.tensor[begin:end], *terms, sums)]
            self.noise.update(*buffers, start=begin, queue=self._queue)
        first, second, third = sums.tolist()  # waits, so the terms live long enough
        return first, second, third

    def digest(self) -> int:
        """See `es_mpi.noise.native.digest`."""
        total = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.noise.digest(_buffer(self.tensor), _buffer(total), queue=self._queue)
        return int(total.item()) % 2**64

    def read(self, into: Float32Array) -> None:
        """Copy theta to the host."""
        torch.from_numpy(into).copy_(self.tensor)

    def wait(self) -> None:
        """Until all that was queued is done."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    @property
    def _queue(self) -> int:
        return torch.cuda.current_stream(self.device).cuda_stream if self.device.type == "cuda" else 0

    def _moved(self, array: NDArray[np.generic]) -> torch.Tensor:
        signed = array.view(np.int64) if array.dtype == np.uint64 else array
        return torch.from_numpy(signed).to(self.device)


def open_device_master(store: MasterStore, device: torch.device, choice: str, fill: int) -> tuple[DeviceMaster | None, str]:
    """theta on `device` if `choice` (engine.master: auto, host, device) and `fill`, the bytes the engine may use there, say
    so; `store` follows it from then on. Otherwise None and, where that is not what was wished, the reason.

    Raises EngineError when `choice` is device and it cannot be done, or when the kernels' bits are wrong.
    """
    if not master_on_device(choice, store.master.nbytes, fill if device.type == "cuda" else 0):
        return None, ""
    try:
        prove(device)
        master = DeviceMaster(store.master, device)
    except NoDevice as error:
        if choice == "device":
            raise EngineError(f"engine.master is device, but: {error}") from error
        return None, f"members are computed on the host: {error}"
    store.follow(master)
    return master, ""


def prove(device: torch.device) -> None:
    """Raises EngineError unless all kernels give the host's bits, and NoDevice where there are none."""
    theta, copy = np.empty(PROBE, np.float32), np.empty(PROBE, np.uint16)
    native.fill(theta, 42, start=PROBE_START)
    native.perturb(copy, theta, 7, PROBE_SIGMA, start=PROBE_START)
    master = DeviceMaster(theta, device)
    out = torch.empty(PROBE, dtype=torch.bfloat16, device=device)
    eps = torch.empty(PROBE, dtype=torch.float32, device=device)
    master.noise.fill(_buffer(eps), 42, start=PROBE_START, queue=master._queue)
    master.noise.perturb(_buffer(out), _buffer(master.tensor), 7, PROBE_SIGMA, start=PROBE_START, queue=master._queue)
    right = bool(torch.equal(eps, master.tensor)) and bool((out.cpu().view(torch.uint16).numpy() == copy).all())
    native.update(theta, PROBE_SEEDS, PROBE_COEFFICIENTS)
    master.update([(0, PROBE)], PROBE_SEEDS, PROBE_COEFFICIENTS)
    right = right and master.digest() == native.digest(theta)
    master.noise.close()
    if not right:
        raise EngineError(
            f"the noise kernels on {device} give other bits than those of the host; engine.master=host does without"
        )


def _buffer(tensor: torch.Tensor) -> Buffer:
    dtype = "uint64" if tensor.dtype == torch.int64 else str(tensor.dtype).removeprefix("torch.")
    if not tensor.is_contiguous():
        raise EngineError(f"a tensor of strides {tensor.stride()} cannot be written in place")
    return Buffer(tensor.data_ptr(), tensor.numel(), dtype)
