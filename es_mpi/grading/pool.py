"""Killable processes that grade batches, each served by a thread of the owner."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from es_mpi.grading.process import Died, Limits, WorkerProcess
from es_mpi.types import Grade, Item, Verdict

FIRST_TRY = 0.25  # share of the time limits that a first try gets: most that hang, hang for good
CHUNKS = 2  # pieces of a batch for each process: few messages, and nobody idle for long

Job = tuple[Sequence[Item], "Future[list[Grade]]"]


class Pool:
    """Grades in `workers` processes. A response that ends one is tried again with all of its time, then it is a verdict.

    Of a response that runs out of time or memory twice the verdict is TIMEOUT with reward 0; of one that crashes the process
    twice it is ERROR. Both depend on the response alone, not on how busy the machine is.
    """

    def __init__(self, grader: str, workers: int, limits: Limits, note: Callable[[str], None], log: Path | None = None) -> None:
        self.grader, self.limits, self.note, self.log = grader, limits, note, log
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, name=f"grading {i}", daemon=True) for i in range(workers)]
        self._workers: dict[int, WorkerProcess] = {}  # by thread
        self._closing = False
        for thread in self._threads:
            thread.start()

    def submit(self, items: Sequence[Item]) -> list[Future[list[Grade]]]:
        """Starts grading and returns at once; the futures' lists joined are the grades in the order of `items`."""
        size = max(1, -(-len(items) // (CHUNKS * len(self._threads))))
        futures = []
        for start in range(0, len(items), size):
            future: Future[list[Grade]] = Future()
            self._jobs.put((items[start : start + size], future))
            futures.append(future)
        return futures

    def close(self) -> None:
        """Ends the processes at once; what was not graded yet never will be."""
        self._closing = True
        for _ in self._threads:
            self._jobs.put(None)
        for worker in list(self._workers.values()):
            worker.process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        worker = self._start()  # at once: its imports take seconds
        while (job := self._jobs.get()) is not None:
            items, future = job
            if self._closing:
                future.cancel()
                continue
            grades: list[Grade] = []
            try:
                while len(grades) < len(items):
                    worker = self._grade(worker, items, grades)
                future.set_result(grades)
            except BaseException as error:  # whoever waits for the future must learn of it
                future.set_exception(error)
                worker.kill()
                worker = self._start()
        worker.kill()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self.grader, self.limits.memory, self.log)
        self._workers[threading.get_ident()] = worker
        return worker

    def _grade(self, worker: WorkerProcess, items: Sequence[Item], grades: list[Grade]) -> WorkerProcess:
        """Adds grades until all are there or a response has cost the process. Returns the process to go on with."""
        first = replace(self.limits, cpu_s=self.limits.cpu_s * FIRST_TRY, asleep_s=self.limits.asleep_s * FIRST_TRY)
        try:
            self._collect(worker, items[len(grades) :], first, grades)
            return worker
        except Died:
            worker.kill()
            if self._closing:
                raise
        item, worker = items[len(grades)], self._start()
        try:
            self._collect(worker, [item], self.limits, grades)
            return worker
        except Died as death:
            worker.kill()
            self.note(f"the grader {death}, twice; reference answer {item.answer!r}, response {item.response[:200]!r}")
            grades.append(Grade(Verdict.TIMEOUT, 0.0) if death.resources else Grade(Verdict.ERROR, math.nan))
        return self._start()

    def _collect(self, worker: WorkerProcess, items: Sequence[Item], limits: Limits, grades: list[Grade]) -> None:
        for grade, notes in worker.grade(items, limits):
            grades.append(grade)
            for text in notes:
                self.note(text)
