"""`comm_open.py CASE`: what happens before and while the ranks meet. Prints the number of ranks when they have met."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

from es_mpi.comm import open_comm
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.port import Comm
from es_mpi.errors import UsageError


def child(queue: multiprocessing.SimpleQueue[str]) -> None:
    """A grader's process, say: it imports the package as its parent did, and must not become an MPI process."""
    import es_mpi.comm.agree

    assert es_mpi.comm.agree
    queue.put("child has mpi4py" if "mpi4py" in sys.modules else "child ran without mpi4py")


def work(comm: Comm, case: str) -> int:
    if case == "child":
        context = multiprocessing.get_context("spawn")
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(queue.get(), flush=True)
        process.join()
    comm.barrier("met")
    print(f"{comm.size} ranks", flush=True)
    return 0


def main(case: str) -> int:
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
        if case == "leaves_before":
            os._exit(0)
        if case == "stalls_before":
            os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm = open_comm(deadline_s=3.0 if case.endswith("before") else 600.0)
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return run_guarded(comm, lambda: work(comm, case))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
