"""Evaluation of the centre: problems shared over all ranks, every response kept, metrics with 95 % intervals."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from es_mpi.comm.port import Comm
from es_mpi.config.schema import EvalConfig
from es_mpi.engine.port import Engine
from es_mpi.evaluation.metrics import sample_metrics
from es_mpi.evaluation.statistics import Interval, interval
from es_mpi.grading.registry import Grader
from es_mpi.tasks.batches import sampling_seed
from es_mpi.types import Completion, Problem, Prompt, Sampling, Verdict

GREEDY = -1  # sample number of the greedy response
INTERVAL_SEED = 0

Row = dict[str, Any]


@dataclass(frozen=True)
class EvalSet:
    """Held-out problems of one task, ready for the engine. `stop` are the task's stop strings."""

    task: str
    problems: Sequence[Problem]
    prompts: Sequence[Prompt]
    stop: tuple[str, ...]
    grader: Grader


@dataclass(frozen=True)
class EvalResult:
    """What rank 0 knows after an evaluation: each metric by name, and all rows in (problem, sample) order."""

    task: str
    metrics: dict[str, Interval]
    rows: list[Row]

    def tags(self) -> dict[str, float]:
        """Values for the monitor: `eval/<task>/<metric>` with `_low` and `_high`."""
        values: dict[str, float] = {}
        for name, found in self.metrics.items():
            tag = f"eval/{self.task}/{name}"
            values |= {tag: found.mean, f"{tag}_low": found.low, f"{tag}_high": found.high}
        return values


def evaluate(
    comm: Comm, engine: Engine, evalset: EvalSet, config: EvalConfig, max_tokens: int, run_seed: int
) -> EvalResult | None:
    """Responses of theta itself to every problem, shared over the ranks; the result on rank 0, None elsewhere.

    Decoding seeds depend on (run seed, problem, sample) alone: two evaluations of a run differ by their weights only.
    """
    engine.load(None)
    mine = range(comm.rank, len(evalset.problems), comm.size)
    rows = [row for sample in _samples(config) for row in _respond(engine, evalset, mine, sample, config, max_tokens, run_seed)]
    parts = comm.gather(f"evaluate {evalset.task}", zlib.compress(json.dumps(rows).encode(), 1))
    if parts is None:
        return None
    merged = [row for part in parts for row in json.loads(zlib.decompress(part))]
    place = {problem.id: i for i, problem in enumerate(evalset.problems)}
    merged.sort(key=lambda row: (place[row["problem"]], row["sample"]))
    return EvalResult(evalset.task, _metrics(merged, len(evalset.problems), config), merged)


def _samples(config: EvalConfig) -> list[int]:
    return [GREEDY] * config.greedy + list(range(config.samples))


def _respond(
    engine: Engine, evalset: EvalSet, mine: range, sample: int, config: EvalConfig, max_tokens: int, run_seed: int
) -> list[Row]:
    temperature, top_p = (0.0, 1.0) if sample == GREEDY else (config.temperature, config.top_p)
    sampling = Sampling(temperature, top_p, max_tokens, evalset.stop)
    seeds = [sampling_seed(run_seed, "eval", i, max(sample, 0)) for i in mine]
    completions = engine.generate([evalset.prompts[i] for i in mine], sampling, seeds)
    return [_row(evalset, evalset.problems[i], sample, completion) for i, completion in zip(mine, completions, strict=True)]


def _row(evalset: EvalSet, problem: Problem, sample: int, completion: Completion) -> Row:
    grade = evalset.grader(completion.text, problem.answer, completion.truncated)
    return {
        "problem": problem.id,
        "sample": sample,
        "response": completion.text,
        "extracted": grade.extracted,
        "verdict": str(grade.verdict),
        "reward": grade.reward if math.isfinite(grade.reward) else None,
        "tokens": len(completion.token_ids),
        "truncated": completion.truncated,
    }


def _metrics(rows: Sequence[Row], problems: int, config: EvalConfig) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    greedy = [float(row["verdict"] == Verdict.RIGHT) for row in rows if row["sample"] == GREEDY]
    if greedy:
        found["greedy"] = interval(greedy, INTERVAL_SEED)
    sampled = [row for row in rows if row["sample"] != GREEDY]
    if sampled:
        right = np.array([row["verdict"] == Verdict.RIGHT for row in sampled]).reshape(problems, config.samples)
        extracted = [row["extracted"] for row in sampled]
        answers = [extracted[i * config.samples : (i + 1) * config.samples] for i in range(problems)]
        for name, values in sample_metrics(right, answers, config.k).items():
            if values is not None:
                found[name] = interval(values, INTERVAL_SEED)
    return found
