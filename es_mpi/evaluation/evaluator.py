"""Evaluation of the centre: problems shared over all ranks, every response kept, metrics with 95 % intervals."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from es_mpi.comm.port import Comm
from es_mpi.config.schema import EvalConfig
from es_mpi.engine.port import Engine
from es_mpi.evaluation.rows import GREEDY, Row, by_problem, intervals, problem_values
from es_mpi.evaluation.statistics import Interval
from es_mpi.grading.service import Grading, Pending
from es_mpi.tasks.batches import sampling_seed
from es_mpi.types import Completion, Grade, Item, Problem, Prompt, Sampling


@dataclass(frozen=True)
class EvalSet:
    """Held-out problems of one task, ready for the engine. `stop` are the task's stop strings.

    `choices` is the number of options of a multiple-choice task.
    """

    task: str
    version: int
    problems: Sequence[Problem]
    prompts: Sequence[Prompt]
    stop: tuple[str, ...]
    grading: Grading
    choices: int | None = None


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

    Decoding seeds depend on (run seed, problem, sample) alone: two evaluations of a run differ by their weights only. Grading
    goes on while the next sample is generated.
    """
    engine.load(None)
    mine = range(comm.rank, len(evalset.problems), comm.size)
    answered = [(n, *_respond(engine, evalset, mine, n, config, max_tokens, run_seed)) for n in _samples(config)]
    rows = [
        _row(evalset.problems[i], sample, completion, grade)
        for sample, completions, pending in answered
        for i, completion, grade in zip(mine, completions, pending(), strict=True)
    ]
    parts = comm.gather(f"evaluate {evalset.task}", zlib.compress(json.dumps(rows).encode(), 1))
    if parts is None:
        return None
    merged: list[Row] = [row for part in parts for row in json.loads(zlib.decompress(part))]
    place = {problem.id: i for i, problem in enumerate(evalset.problems)}
    merged.sort(key=lambda row: (place[row["problem"]], row["sample"]))
    return EvalResult(evalset.task, intervals(problem_values(by_problem(merged), config.k)), merged)


def _samples(config: EvalConfig) -> list[int]:
    return [GREEDY] * config.greedy + list(range(config.samples))


def _respond(
    engine: Engine, evalset: EvalSet, mine: range, sample: int, config: EvalConfig, max_tokens: int, run_seed: int
) -> tuple[list[Completion], Pending]:
    greedy = sample == GREEDY
    temperature, top_p = (0.0, 1.0) if greedy else (config.temperature, config.top_p)
    sampling = Sampling(temperature, top_p, max_tokens, evalset.stop, logprobs=not greedy)
    seeds = [sampling_seed(run_seed, "eval", i, max(sample, 0)) for i in mine]
    completions = engine.generate([evalset.prompts[i] for i in mine], sampling, seeds)
    items = [Item(c.text, evalset.problems[i].answer, c.truncated) for i, c in zip(mine, completions, strict=True)]
    return completions, evalset.grading.submit(items)


def _row(problem: Problem, sample: int, completion: Completion, grade: Grade) -> Row:
    row = {
        "problem": problem.id,
        "sample": sample,
        "question": problem.question,
        "answer": problem.answer,
        "response": completion.text,
        **graded(grade),
        "truncated": completion.truncated,
        "token_ids": completion.token_ids,
    }
    return row if sample == GREEDY else {**row, "logprob": math.fsum(completion.logprobs)}


def graded(grade: Grade) -> Row:
    """What a row says of its grade."""
    reward = grade.reward if math.isfinite(grade.reward) else None
    return {"extracted": grade.extracted, "verdict": str(grade.verdict), "reward": reward}
