"""One grading process as its owner sees it: start, ask, watch, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from es_mpi.grading.worker import OUT_OF_MEMORY
from es_mpi.types import Grade, Item, Verdict

# Variables by which a process takes itself for a rank of the job that its parent belongs to.
LAUNCHERS = ("OMPI_", "PMI", "PRTE_", "MPI_", "MPICH_", "HYDRA_", "HYDI_", "I_MPI_", "SLURM_", "FLUX_", "PALS_", "ALPS_")
TICK_S = 0.2  # between looks at a silent process


@dataclass(frozen=True)
class Limits:
    """Of one response: CPU seconds, seconds asleep (waiting for something else than a CPU), bytes of memory."""

    cpu_s: float
    asleep_s: float
    memory: int


class Died(Exception):
    """The process ended in the middle of a response; `resources` says that a limit was the reason."""

    def __init__(self, why: str, resources: bool) -> None:
        super().__init__(why)
        self.resources = resources


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the launcher's variables, on one thread and without a GPU."""
    kept = {name: value for name, value in environment.items() if not name.startswith(LAUNCHERS)}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class WorkerProcess:
    """A fresh interpreter (no fork of a process with MPI and engine threads) that ends with the thread that started it."""

    def __init__(self, grader: str, memory: int, log: Path | None) -> None:
        errors = log.open("ab") if log else subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "es_mpi.grading.worker", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env=clean_environment(os.environ), start_new_session=True,
            )  # fmt: skip
        finally:
            if log:
                errors.close()  # type: ignore[union-attr]
        self._ready = False
        self._unread = b""
        self._send({"grader": grader, "memory": memory, "path": [os.getcwd(), *sys.path]})

    def grade(self, items: Sequence[Item], limits: Limits) -> Iterator[tuple[Grade, list[str]]]:
        """A grade and notes for each item, as they come. Raises Died at the item that ends the process."""
        if not self._ready:
            self._line(None)
            self._ready = True
        self._send({"cpu_s": limits.cpu_s, "items": items})
        for _ in items:
            verdict, reward, extracted, notes = json.loads(self._line(limits.asleep_s))
            yield Grade(Verdict(verdict), reward, extracted), notes

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(BrokenPipeError):  # what was not sent yet
                    pipe.close()

    def _send(self, message: object) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):  # the next read says why
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def _line(self, asleep_s: float | None) -> bytes:
        """The next line. A process that only sleeps for `asleep_s` is killed; one that is stopped or waits for a CPU is not."""
        assert self.process.stdout
        asleep = 0.0
        while b"\n" not in self._unread:
            readable, _, _ = select.select([self.process.stdout], [], [], TICK_S)
            if readable:
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise self._end()
                self._unread += chunk
            elif asleep_s is not None and self._state() in "SD":
                asleep += TICK_S
                if asleep > asleep_s:
                    raise Died(f"slept for {asleep_s} s", resources=True)
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _state(self) -> str:
        """R runs or waits for a CPU, S and D sleep, T is stopped."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return "X"
        return stat.rpartition(")")[2].split()[0]

    def _end(self) -> Died:
        code = self.process.wait()
        if code == OUT_OF_MEMORY:
            return Died("needed too much memory", resources=True)
        if code == -signal.SIGPROF:
            return Died("needed too much time", resources=True)
        why = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return Died(why, resources=False)
