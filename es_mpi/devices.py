"""The devices that a plan knows, by the figures of their makers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from es_mpi.errors import UsageError, did_you_mean

GIB = 2**30
LIMIT_FILE = Path("/sys/fs/cgroup/memory.max")  # of a container, or of a job that has a cgroup namespace
COMPUTE_SHARE, MEMORY_SHARE = 0.35, 0.6  # of a GPU's peaks that an engine reaches


@dataclass(frozen=True)
class Device:
    """What generates on a rank: FLOP/s and memory bytes/s that an engine reaches, its own memory in GiB (None: the host's)."""

    name: str
    flops: float
    bandwidth: float
    memory_gib: float | None = None


def _gpu(name: str, tera_flops: float, tera_bytes: float, gib: float) -> Device:
    """A GPU by its peaks: dense bf16 TFLOP/s, memory TB/s."""
    return Device(name, COMPUTE_SHARE * tera_flops * 1e12, MEMORY_SHARE * tera_bytes * 1e12, gib)


GPUS = {
    gpu.name: gpu
    for gpu in (
        _gpu("A10", 125, 0.60, 24),
        _gpu("A100-40", 312, 1.56, 40),
        _gpu("A100-80", 312, 2.04, 80),
        _gpu("H100", 989, 3.35, 80),
        _gpu("H200", 989, 4.80, 141),
        _gpu("B200", 2250, 8.00, 180),
        _gpu("L4", 121, 0.30, 24),
        _gpu("L40S", 362, 0.86, 48),
        _gpu("RTX4090", 165, 1.01, 24),
    )
}
CORE = Device("CPU core", 0.19e12, 10e9)  # measured with a 135M model on one core with AVX-512 bf16; older cores are slower


def find_gpu(name: str) -> Device:
    """The GPU called `name`; UsageError names the known ones."""
    for gpu in GPUS.values():
        if gpu.name.lower() == name.lower():
            return gpu
    raise UsageError("no figures for this GPU", value=name, key="--gpu", remedy=did_you_mean(name, GPUS))


def host_bytes() -> int:
    """Memory of this machine, or of the container that this process is in."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(installed, int(LIMIT_FILE.read_text()))
    except (OSError, ValueError):  # no such file; or "max"
        return installed


def installed_gpu(env: Mapping[str, str]) -> Device | None:
    """This machine's GPU with the least memory, as its driver's tool tells it; None where there is none to be used.

    Asked of a tool and not of torch: nothing may touch a GPU before a rank has chosen its own.
    """
    import subprocess

    if env.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
        found = [(float(mebibytes) / 1024, name.strip()) for name, _, mebibytes in (line.rpartition(",") for line in lines)]
    except (OSError, subprocess.SubprocessError, ValueError):  # no tool, no driver, or a GPU in a fault
        return None
    return min((Device(name, 0.0, 0.0, gib) for gib, name in found), key=lambda device: device.memory_gib or 0.0, default=None)
