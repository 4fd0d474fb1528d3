"""A `Comm` whose ranks are threads of one process: the real exchanges, with queues in place of MPI."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from threading import Thread
from typing import Any, NoReturn

from es_mpi.comm.exchange import PeerComm
from es_mpi.comm.port import Comm

HUNG_S = 30.0  # longer than any deadline a test sets


class Aborted(Exception):
    """What `abort` does to a thread: `args` are the exit code, the reason and the missing ranks."""


class ThreadComm(PeerComm):
    def __init__(self, rank: int, size: int, deadline_s: float, lines: dict[tuple[int, int], deque[bytes]]) -> None:
        self._lines = lines  # (from, to) -> messages under way
        super().__init__(rank, size, f"node{rank // 2}", deadline_s)

    def _post(self, peer: int, message: bytes) -> None:
        self._lines[self.rank, peer].append(message)

    def _unsent(self) -> set[int]:
        return set()

    def _take(self, peer: int) -> bytes | None:
        line = self._lines[peer, self.rank]
        return line.popleft() if line else None

    def abort(self, exit_code: int, reason: str, missing: Collection[int] = ()) -> NoReturn:
        raise Aborted(exit_code, reason, missing)

    def close(self) -> None:
        self.barrier("end of the job")


def run_threads(size: int, program: Callable[[Comm], Any], deadline_s: float = 20.0) -> list[Any]:
    """Run `program(comm)` on `size` ranks, two to a host, and return each rank's result, or the exception that ended it."""
    lines: dict[tuple[int, int], deque[bytes]] = {(a, b): deque() for a in range(size) for b in range(size)}
    outcomes: dict[int, Any] = {}

    def rank_main(rank: int) -> None:
        try:
            outcomes[rank] = program(ThreadComm(rank, size, deadline_s, lines))
        except BaseException as error:  # also SystemExit: it is the result to look at
            outcomes[rank] = error

    threads = [Thread(target=rank_main, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HUNG_S)
    assert len(outcomes) == size, f"only ranks {sorted(outcomes)} of {size} came to an end"
    return [outcomes[rank] for rank in range(size)]
