"""Grade the responses of an evaluation again, from disk: no model, no ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from es_mpi.config.schema import GradingConfig
from es_mpi.errors import UsageError
from es_mpi.evaluation.evaluator import graded
from es_mpi.evaluation.folder import RESULTS, TaskRows, read_evaluation, read_results, write_evaluation
from es_mpi.evaluation.rows import GREEDY, Row, by_problem, intervals, problem_values, verdicts
from es_mpi.evaluation.statistics import Interval
from es_mpi.grading.service import Grading
from es_mpi.types import Item


@dataclass(frozen=True)
class Regraded:
    """One task: metrics before and after, the new rows, and how many responses went from one verdict to another."""

    reward: str
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    rows: Sequence[Row]
    moved: Mapping[tuple[str, str], int]


def regrade(
    path: Path, *, step: int | None = None, reward: str | None = None, ks: Sequence[int] | None = None
) -> dict[str, Regraded]:
    """Every task of the evaluation in `path` with the grader `reward` (default: the one it was graded with).

    `ks` are the K of Pass@K (default: 1 and the number of samples). Raises UsageError.
    """
    return {name: _regrade(name, task, reward, ks) for name, task in read_evaluation(path, step).tasks.items()}


def write_regraded(path: Path, out: Path, found: Mapping[str, Regraded]) -> None:
    """A new evaluation folder with the new verdicts, everything else as in `path`."""
    facts = read_results(path) if (path / RESULTS).is_file() else {"source": str(path), "tasks": {}}
    for name, task in found.items():
        old = facts["tasks"].get(name, {"settings": {}})
        facts["tasks"][name] = {
            **old, "settings": {**old["settings"], "reward": task.reward},
            "metrics": {metric: asdict(one) for metric, one in task.after.items()}, "verdicts": verdicts(task.rows),
        }  # fmt: skip
    write_evaluation(out, facts, {name: task.rows for name, task in found.items()})


def _regrade(name: str, task: TaskRows, reward: str | None, ks: Sequence[int] | None) -> Regraded:
    chosen = reward or task.settings.get("reward")
    if not chosen:
        remedy = "name a grader: --reward NAME"
        raise UsageError(f"the evaluation does not say how {name} was graded", key="--reward", remedy=remedy)
    grading = Grading(chosen, GradingConfig())
    grading.start(lambda text: None)
    try:
        grades = grading.submit([Item(row["response"], row["answer"], row["truncated"]) for row in task.rows])()
    finally:
        grading.close()
    rows: list[Row] = [{**row, **graded(grade)} for row, grade in zip(task.rows, grades, strict=True)]
    moved: dict[tuple[str, str], int] = {}
    for old, new in zip(task.rows, rows, strict=True):
        if old["verdict"] != new["verdict"]:
            pair = (str(old["verdict"]), str(new["verdict"]))
            moved[pair] = moved.get(pair, 0) + 1
    samples = 1 + max((row["sample"] for row in rows), default=GREEDY)
    known = [k for k in ks or (1, samples) if 1 <= k <= samples]
    return Regraded(chosen, _metrics(task.rows, known), _metrics(rows, known), rows, moved)


def _metrics(rows: Sequence[Row], ks: Sequence[int]) -> dict[str, Interval]:
    return intervals(problem_values(by_problem(rows), ks))
