"""What every command on ranks starts with: MPI opened and guarded, input checked on all ranks together, a file for notes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from es_mpi.comm import open_comm
from es_mpi.comm.agree import agree_errors
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.port import Comm
from es_mpi.errors import UsageError

T = TypeVar("T")


def guarded_run(work: Callable[[Comm], int]) -> int:
    """Open the ranks and do `work` on each; an error of one ends all. Returns the exit code."""
    gc.disable()  # until the engine is open: a start makes millions of objects that stay, and sifting them takes seconds
    try:
        comm = open_comm()
        return run_guarded(comm, lambda: work(comm))
    finally:
        gc.enable()


def stage(comm: Comm, work: Callable[[], T]) -> T:
    """One step of the start-up on all ranks: if any of them meets bad input, all stop with all messages at once."""
    error: UsageError | None = None
    try:
        result = work()
    except UsageError as caught:
        error = caught
    agree_errors(comm, error)
    return result


def note_to(log: Path) -> Callable[[str], None]:
    """A function that appends lines to `log`."""

    def note(text: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    return note
