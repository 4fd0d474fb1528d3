"""`comm_endings.py CASE`: three ranks are at work, and rank 1 ends as CASE says. Prints what a rank had to say before."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from es_mpi.comm import open_comm
from es_mpi.comm.agree import agree_errors, agree_fields
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.port import Comm
from es_mpi.errors import UsageError

LONGER_THAN_THE_TEST_S = 600.0
SOON_S = 2.0


def fail() -> None:
    raise RuntimeError("boom")


def interrupt() -> None:
    raise KeyboardInterrupt


def stall() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


RANK_1: dict[str, Callable[[], object]] = {
    "raises": fail,
    "sys_exit_0": lambda: sys.exit(0),
    "os_exit_0": lambda: os._exit(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "interrupted": interrupt,
    "stalls": stall,
}


def population_differs(comm: Comm) -> None:
    agree_fields(comm, "config", {"population": "5" if comm.rank == 1 else "3", "sigma": "0.1"})


def usage_error(comm: Comm) -> None:
    agree_errors(comm, UsageError("model folder not found") if comm.rank == 1 else None)


def different_places(comm: Comm) -> None:
    comm.barrier("digest" if comm.rank == 1 else "merge scores")


TOGETHER: dict[str, Callable[[Comm], None]] = {
    "population_differs": population_differs,
    "usage_error": usage_error,
    "different_places": different_places,
    "finishes": lambda comm: comm.barrier("last"),
}


def work(comm: Comm, case: str) -> int:
    print(f"rank {comm.rank} on {comm.host} works", flush=True)
    comm.barrier("all at work")
    comm.deadline_s = SOON_S if case == "stalls" else LONGER_THAN_THE_TEST_S
    if case in TOGETHER:
        TOGETHER[case](comm)
    elif comm.rank == 1:
        RANK_1[case]()
    elif comm.rank == 2 and case != "stalls":
        time.sleep(LONGER_THAN_THE_TEST_S)  # generates, far from any exchange
    else:
        comm.barrier("merge scores")
    return 0


if __name__ == "__main__":
    comm = open_comm()
    raise SystemExit(run_guarded(comm, lambda: work(comm, sys.argv[1])))
