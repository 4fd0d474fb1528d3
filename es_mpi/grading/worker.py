"""The process that grades: `python -m es_mpi.grading.worker`, started by `process.WorkerProcess`. It may be killed at any moment.

It reads one JSON line with its set-up, then one a batch, and writes one line a response. The kernel ends it when a response takes
more CPU time than allowed (the default action of SIGPROF), also inside of C code; time that the machine or the process stands
still does not count. What a grader prints goes to the log.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import NoReturn, TextIO

from es_mpi.grading.guarded import guarded
from es_mpi.grading.registry import Grader, find_grader
from es_mpi.types import Grade

OUT_OF_MEMORY = 77  # exit code
PR_SET_PDEATHSIG = 1
NICENESS = 5  # generating goes first


def main() -> NoReturn:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a grader that prints must not break the protocol
    _die_with_parent(int(sys.argv[1]))
    setup = json.loads(sys.stdin.readline() or "null")
    if setup is not None:
        sys.path[:] = setup["path"]
        _serve(find_grader(setup["grader"]).loaded(), setup["memory"], answers)
    sys.exit(0)  # the parent has closed the pipe


def _die_with_parent(parent: int) -> None:
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):  # a scheduler sends them to all; the rank decides when to end
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)


def _serve(grader: Grader, memory: int, answers: TextIO) -> None:
    notes: list[str] = []
    grade = guarded(_mortal(grader), notes.append)
    _limit_memory(memory)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        batch = json.loads(line)
        for response, answer, truncated in batch["items"]:
            notes.clear()
            signal.setitimer(signal.ITIMER_PROF, batch["cpu_s"])
            given = grade(response, answer, truncated)
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps([given.verdict, given.reward, given.extracted, notes]), file=answers, flush=True)


def _mortal(grader: Grader) -> Grader:
    """Out of memory is the end: what is left of the process cannot be trusted."""

    def grade(response: str, answer: str, truncated: bool) -> Grade:
        try:
            return grader(response, answer, truncated)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)

    return grade


def _limit_memory(extra: int) -> None:
    """At most `extra` bytes of address space beyond what the libraries have taken."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
