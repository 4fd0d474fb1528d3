"""Real ranks under a real launcher: they meet, exchange, and end together however one of them ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from mpi_launch import REPO, rank_env, run_ranks

PROGRAMS = Path(__file__).parent / "programs"
HOST = socket.gethostname()
ULFM = ("--with-ft", "ulfm")
GONE_S = 10.0  # a rank that the launcher forgot ends itself
LIMIT_S = 60.0  # for a loaded machine; a job that hangs would wait ten minutes

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(90)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_exchange(ranks: int) -> None:
    done = run_ranks(ranks, [PROGRAMS / "comm_exchanges.py"], LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", *(f"rank {rank}: ok" for rank in range(ranks))]


@pytest.mark.parametrize("options", [(), ULFM], ids=["plain", "ulfm"])
@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("raises", 70, [f"rank 1 on host {HOST}: RuntimeError: boom", "Traceback"]),
        ("sys_exit_0", 70, [f"rank 1 on host {HOST}: sys.exit(0) in the middle of the work"]),
        ("interrupted", 75, [f"rank 1 on host {HOST}: interrupted from the keyboard"]),
        ("stalls", 75, [f"'merge scores' waited 2 s in vain for rank 1 on {HOST}", "comm.deadline_s"]),
        ("different_places", 76, ["'digest'", "'merge scores'", f"rank 1 on {HOST}"]),
    ],
)
def test_one_rank_ends_the_job_and_is_named(case: str, code: int, said: list[str], options: tuple[str, ...]) -> None:
    done = run_ranks(3, [PROGRAMS / "comm_endings.py", case], LIMIT_S, options=options)
    assert done.returncode == code, done.stderr
    for text in said:
        assert text in done.stderr
    left = [process for process in psutil.process_iter(["cmdline"]) if case in (process.info["cmdline"] or ())]
    assert not psutil.wait_procs(left, timeout=GONE_S)[1]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "code"), [("different_places", 76), ("killed", 75)])
def test_ranks_that_end_a_job_together_do_not_get_in_each_others_way(case: str, code: int) -> None:
    ends = [run_ranks(3, [PROGRAMS / "comm_endings.py", case], LIMIT_S, options=ULFM).returncode for _ in range(40)]
    assert ends == [code] * 40


@pytest.mark.parametrize("case", ["os_exit_0", "killed"])
def test_a_rank_that_vanishes_without_a_word_fails_the_job(case: str) -> None:
    done = run_ranks(3, [PROGRAMS / "comm_endings.py", case], LIMIT_S)
    assert done.returncode != 0
    assert "process rank 1 with PID" in done.stderr  # the launcher's words: the rank itself had no time for any


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("population_differs", [f"population = 3 on ranks 0,2 on {HOST}", f"population = 5 on rank 1 on {HOST}"]),
        ("usage_error", [f"rank 1 on {HOST}: model folder not found"]),
    ],
)
def test_an_agreed_error_is_told_once_and_ends_without_an_abort(case: str, said: list[str]) -> None:
    done = run_ranks(3, [PROGRAMS / "comm_endings.py", case], LIMIT_S)
    assert done.returncode == 2, done.stderr
    assert "MPI_ABORT" not in done.stderr
    for text in said:
        assert done.stderr.count(text) == 1


def test_a_job_that_finishes_exits_0_without_a_word_on_stderr() -> None:
    done = run_ranks(3, [PROGRAMS / "comm_endings.py", "finishes"], LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("case", ["leaves_before", "stalls_before"])
def test_a_rank_that_never_opens_mpi_fails_the_job(case: str) -> None:
    done = run_ranks(3, [PROGRAMS / "comm_open.py", case], LIMIT_S)
    assert done.returncode != 0
    if case == "stalls_before":
        assert "open_mpi" in done.stderr  # the stack names the wait


def test_a_spawned_child_of_a_rank_runs_outside_mpi() -> None:
    done = run_ranks(2, [PROGRAMS / "comm_open.py", "child"], LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("child ran without mpi4py") == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_launch_of_four_that_mpi_sees_as_one_stops_with_the_hint(rank: int) -> None:
    launched = {"RANK": str(rank), "SIZE": "4", "LOCAL_RANK": str(rank), "LOCAL_SIZE": "4"}
    env = rank_env({f"OMPI_COMM_WORLD_{name}": value for name, value in launched.items()})
    command = [sys.executable, PROGRAMS / "comm_open.py", "trap"]
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2, done.stderr
    assert "started 4 ranks, but MPI sees 1" in done.stderr
    assert "srun --mpi=pmix" in done.stderr
