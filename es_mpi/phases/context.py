"""What a phase works with, and what it gives back for one step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from es_mpi.comm.port import Comm
from es_mpi.engine.port import Engine
from es_mpi.grading.service import Grading
from es_mpi.params.turn import Turn
from es_mpi.tasks.batches import Batches
from es_mpi.types import Sampling


@dataclass(frozen=True)
class RunContext:
    """The ports of one rank, shared by all phases."""

    run_seed: int
    comm: Comm
    engine: Engine
    batches: Batches
    grading: Grading
    sampling: Sampling
    turn: Turn = field(default_factory=Turn)


@dataclass(frozen=True)
class StepReport:
    """One finished step: `record` is its journal line, equal on every rank; `metrics` are for rank 0 to show."""

    record: Mapping[str, Any]
    metrics: Mapping[str, float]


@dataclass
class Tally:
    """What one rank counts during one step: seconds by activity and counts of responses. Ranks add them up."""

    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1.0) -> None:
        self.values[name] = self.values.get(name, 0.0) + amount

    @contextmanager
    def timed(self, activity: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(f"time/{activity}", time.perf_counter() - begin)
