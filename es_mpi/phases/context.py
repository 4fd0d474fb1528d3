"""What a phase works with, and what it gives back for one step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from es_mpi.comm.agree import pool_scores
from es_mpi.comm.port import Comm
from es_mpi.engine.port import Engine
from es_mpi.grading.service import Grading
from es_mpi.params.turn import Turn
from es_mpi.tasks.batches import Batches
from es_mpi.types import MemberScore, Sampling, UpdateStats, Verdict


class Stopped(Exception):
    """A stop was asked for: the step was broken off between two members on every rank, and the master is as before it."""


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


@dataclass
class Progress:
    """How far this rank has come with one step. `stats` are set once the master holds the update."""

    scores: dict[int, MemberScore] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    stats: UpdateStats | None = None
    turn: float = math.nan  # cosine with the update before


class Ledger:
    """What is known of the newest steps, so that a step which the loss of a rank broke off goes on from there.

    Ranks are at most one step apart, so two steps are kept.
    """

    def __init__(self) -> None:
        self._steps: dict[int, Progress] = {}

    def at(self, step: int) -> Progress:
        self._steps = {known: progress for known, progress in self._steps.items() if abs(known - step) <= 1}
        return self._steps.setdefault(step, Progress())

    def pool(self, comm: Comm, step: int) -> None:
        """Let every rank know the scores of `step` that any of them knows."""
        self.at(step).scores = pool_scores(comm, self.at(step).scores)


@dataclass(frozen=True)
class RunContext:
    """The ports of one rank, shared by all phases."""

    run_seed: int
    comm: Comm
    engine: Engine
    batches: Batches
    grading: Grading
    sampling: Sampling
    stopping: Callable[[], bool] = lambda: False  # whether this rank was told to stop
    turn: Turn = field(default_factory=Turn)
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(frozen=True)
class StepReport:
    """One finished step: `record` is its journal line, equal on every rank; `metrics` are for rank 0 to show."""

    record: Mapping[str, Any]
    metrics: Mapping[str, float]
    warnings: tuple[str, ...] = ()


class OpenPhase(Protocol):
    """A phase while its steps are made, with what it keeps between them."""

    def step(self, step: int) -> StepReport: ...

    def save(self, folder: Path) -> None:
        """Write into a checkpoint what resuming within the phase needs beside the master weights."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Stateless:
    """A phase that keeps nothing between its steps."""

    step: Callable[[int], StepReport]

    def save(self, folder: Path) -> None: ...

    def close(self) -> None: ...


def common_metrics(totals: Mapping[str, float], ranks: int) -> dict[str, float]:
    """The tags that every phase has, from the sums of all ranks' tallies. Times are means over ranks, in seconds."""
    times = {name: seconds / ranks for name, seconds in totals.items() if name.startswith("time/")}
    responses, tokens, whole = totals.get("responses", 0.0), totals.get("tokens", 0.0), sum(times.values())
    return {
        "gen/tokens": tokens, "gen/mean_length": tokens / max(responses, 1.0),
        "gen/truncated": totals.get("truncated", 0.0) / max(responses, 1.0),
        **{f"grade/{verdict}": totals.get(f"grade/{verdict}", 0.0) / max(responses, 1.0) for verdict in Verdict},
        **times,
        "perf/tokens_per_s": tokens / whole,
        "perf/overhead": whole / times["time/generate"] if times.get("time/generate") else math.nan,
        "perf/bytes_per_step": totals["bytes"] / ranks,
    }  # fmt: skip
