"""The same run under every launcher that can be had here, and on two hosts: the bits of one process.

`launch/test --cluster` runs these. They need root and Debian packages (openmpi-bin; slurm-wlm, munge, libpmix-dev; iproute2,
openssh-server) and, for MPICH, a package index; what is missing is named in the skip.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from hosts_here import Hosts, two_hosts
from hosts_here import missing as hosts_lack
from mpi_launch import REPO, kill_ranks, rank_env
from runs import TESTS_ON_PATH, es_mpi, journal, toy_config, wait_for_steps
from slurm_here import cluster
from slurm_here import missing as slurm_lacks

pytestmark = [pytest.mark.cluster, pytest.mark.mpi, pytest.mark.timeout(180)]

LIMIT_S = 90
DEBIAN_MPI = Path("/usr/lib/x86_64-linux-gnu/libmpi.so.40")
KEEPALIVE = [f"oob_tcp_keepalive_{name}" for name in ("time", "intvl", "probes")]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return toy_config(tmp_path, task={"reward": "toy_reward:slow_closeness"})


def digests(config: Path, name: str) -> list[str]:
    return [record["digest"] for record in journal(config.parent / "runs" / name)]


def check_same_bits(config: Path, launcher: Sequence[str | Path], env: dict[str, str]) -> None:
    """A run on two ranks of `launcher` equals that of one process, and its ranks say nothing they should not."""
    assert es_mpi(["train", config, "run.name=one"]).returncode == 0
    done = launched(launcher, ["train", config, "run.name=two"], env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 rank(s)" in done.stdout
    assert digests(config, "two") == digests(config, "one")


def launched(launcher: Sequence[str | Path], args: Sequence[str | Path], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, launcher), sys.executable, "-m", "es_mpi", *map(str, args)], env={**env, **TESTS_ON_PATH},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The PyPI wheel of MPICH, outside of the virtual environment, whose own MPI is Open MPI."""
    folder = tmp_path_factory.mktemp("mpich")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--prefix", str(folder), "mpich"]
    if subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False).returncode:
        pytest.skip("pip cannot fetch the wheel of MPICH")
    return folder


def test_mpich(config, mpich):
    env = rank_env({"MPI4PY_LIBMPI": str(mpich / "lib" / "libmpi.so.12")})
    check_same_bits(config, [mpich / "bin" / "mpiexec", "-n", "2"], env)


def test_mpiexec_of_mpich_with_the_library_of_open_mpi_stops(config, mpich):
    done = launched([mpich / "bin" / "mpiexec", "-n", "2"], ["train", config], rank_env())
    assert done.returncode == 2 and "started 2 ranks, but MPI sees 1" in done.stderr
    assert not (config.parent / "runs").exists()


def test_open_mpi_4_of_debian(config):
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None or not DEBIAN_MPI.exists():
        pytest.skip("needs openmpi-bin")
    check_same_bits(config, [mpirun, "--oversubscribe", "-n", "2"], rank_env({"MPI4PY_LIBMPI": str(DEBIAN_MPI)}))


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory):
    if slurm_lacks():
        pytest.skip(f"needs {slurm_lacks()}")
    with cluster(tmp_path_factory.mktemp("slurm")) as env:
        yield env


def test_two_nodes_of_slurm(config, slurm):
    check_same_bits(config, ["srun", "--nodes=2", "--ntasks=2", "--mpi=pmix"], rank_env(slurm))


def test_slurm_that_speaks_another_protocol_than_mpi_is_stopped(config, slurm):
    done = launched(["srun", "--nodes=2", "--ntasks=2", "--mpi=pmi2"], ["train", config], rank_env(slurm))
    assert done.returncode == 2 and "srun started 2 ranks, but MPI sees 1" in done.stderr and "srun --mpi=pmix" in done.stderr
    assert not (config.parent / "runs").exists()


def test_the_batch_script_is_put_back_when_it_is_told_to_stop_and_goes_on(config, slurm):
    assert es_mpi(["train", config, "run.name=one", "phases.warm.updates=30"]).returncode == 0
    command = config.parent / ".venv" / "bin" / "es-mpi"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m es_mpi "$@"\n')
    command.chmod(0o755)
    (config.parent / "launch").symlink_to(REPO / "launch")
    options = ["--parsable", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--gpus-per-node=0"]
    script = [REPO / "launch" / "slurm.sbatch", config, "phases.warm.updates=30"]
    env = rank_env({**slurm, **TESTS_ON_PATH})
    submitted = subprocess.run(
        ["sbatch", *options, *script], cwd=config.parent, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert submitted.returncode == 0, submitted.stderr
    job, log = submitted.stdout.strip(), config.parent / f"slurm_{submitted.stdout.strip()}.log"
    run = config.parent / "runs" / f"slurm_{job}"
    wait_until(lambda: run.exists() and (run / "journal.jsonl").exists() and len(journal(run)) > 2, log)
    subprocess.run(["scancel", "--signal=USR1", job], env=env, timeout=LIMIT_S, check=True)
    wait_until((run / "summary.json").exists, log)
    assert "stopped by a signal" in log.read_text() and "continuing after step" in log.read_text()
    assert digests(config, run.name) == digests(config, "one")


def wait_until(ready: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + LIMIT_S
    while not ready():
        assert time.monotonic() < end, log.read_text() if log.exists() else "it did not come so far"
        time.sleep(0.1)


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory):
    if hosts_lack():
        pytest.skip(f"needs {hosts_lack()}")
    with two_hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


ON_HOSTS = {**TESTS_ON_PATH, "OMP_NUM_THREADS": "1"}


def test_two_hosts_by_ssh(config, hosts: Hosts):
    assert es_mpi(["train", config, "run.name=one"]).returncode == 0
    process = hosts.mpirun(["-m", "es_mpi", "train", config, "run.name=two"], ON_HOSTS)
    out, err = finish(process)
    assert process.returncode == 0, err
    assert "2 rank(s)" in out and digests(config, "two") == digests(config, "one")


def test_a_host_that_is_cut_off_ends_the_job_and_resume_finishes(config, hosts: Hosts):
    keepalive = [word for name, value in zip(KEEPALIVE, "312", strict=True) for word in ("--prtemca", name, value)]
    process = hosts.mpirun(["-m", "es_mpi", "train", config, "phases.warm.updates=40"], ON_HOSTS, *keepalive)
    run = config.parent / "runs" / "run"
    wait_for_steps(run, 3, process)
    hosts.cut_off(1)
    _, err = finish(process)
    assert "lost communication with a remote daemon" in err  # and its exit code is 0: no news of the run
    assert not (run / "summary.json").exists()
    wait_for_no_process(str(config))  # the launcher did not wait for its ranks
    steps = len(journal(run))
    done = es_mpi(["resume", run, "--force", "phases.warm.updates", f"phases.warm.updates={steps + 2}"])
    assert done.returncode == 0, done.stderr
    assert len(digests(config, "run")) == steps + 2


def wait_for_no_process(named: str) -> None:
    def gone() -> bool:
        return not any(named in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))

    wait_until(gone, Path("none"))


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=LIMIT_S)
    finally:
        if process.poll() is None:
            kill_ranks(process)
