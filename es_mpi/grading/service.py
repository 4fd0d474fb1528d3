"""Grading as the rest of the program sees it: batches in, grades out later, wherever the work is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from es_mpi.config.schema import GradingConfig
from es_mpi.grading.guarded import guarded
from es_mpi.grading.registry import find_grader
from es_mpi.types import Grade, Item

if TYPE_CHECKING:
    from concurrent.futures import Future

    from es_mpi.grading.pool import Pool

Pending = Callable[[], list[Grade]]
"""Waits for the grades of a batch, in its order."""


@dataclass
class Grading:
    """The grader called `name`: in this process if it is bounded by its making, else in killable ones.

    Also a plain grader itself, for one response at a time. `trouble` is the first thing that went wrong, in words. Raises
    UsageError for an unknown name.
    """

    name: str
    config: GradingConfig
    trouble: str = field(default="", init=False)
    _note: Callable[[str], None] = field(default=lambda text: None, repr=False)
    _pool: Pool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._entry = find_grader(self.name)

    def start(self, note: Callable[[str], None], log: Path | None = None) -> None:
        """Starts the processes, which then load their libraries on their own. `note` gets what went wrong, in words."""
        from es_mpi.grading.pool import Pool  # a twentieth of the start of `check` and `plan`, which grade nothing
        from es_mpi.grading.process import Limits

        self._note = note
        if self._entry.pooled and self.config.workers and self._pool is None:
            limits = Limits(self.config.cpu_s, self.config.asleep_s, int(self.config.memory_gib * 2**30))
            self._pool = Pool(self.name, self.config.workers, limits, self._noted, log)

    def submit(self, items: Sequence[Item]) -> Pending:
        """Starts grading a batch; bounded graders and those without processes grade when the result is asked for."""
        if self._pool is None:
            grade = guarded(self._entry.grade, self._noted)
            return lambda: [grade(*item) for item in items]
        futures: list[Future[list[Grade]]] = self._pool.submit(items)
        return lambda: [grade for future in futures for grade in future.result()]

    def __call__(self, response: str, answer: str, truncated: bool) -> Grade:
        return self.submit([Item(response, answer, truncated)])()[0]

    def _noted(self, text: str) -> None:
        self.trouble = self.trouble or text
        self._note(text)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
