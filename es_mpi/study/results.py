"""What a study found: its points side by side, in the papers' layout, with intervals over problems and over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from es_mpi.checkpoint.jsonl import scan
from es_mpi.config.schema import Config
from es_mpi.errors import UsageError
from es_mpi.evaluation.folder import Evaluation, read_evaluation
from es_mpi.evaluation.groups import Groups, compare_groups
from es_mpi.evaluation.significance import over_seeds
from es_mpi.monitoring.tags import REWARD_MEAN, SCORES
from es_mpi.study.plan import Cell, Study

BASE = "base"  # the model before training, evaluated by the runs themselves


def study_results(study: Study) -> tuple[dict[str, Any], Groups]:
    """`compare_groups` of the finished points, the reference first, with the `study` (its table, see `_row`); and the groups.

    Raises UsageError where no run has finished, or none was evaluated.
    """
    finished = {point: [c for c in cells if c.folder.summary.exists()] for point, cells in study.points.items()}
    finished = {point: cells for point, cells in finished.items() if cells}
    done = sum(map(len, finished.values()))
    if not done:
        remedy = f"es-mpi study {study.path}"
        raise UsageError("no run of the study has finished", value=str(study.folder), expected="results", remedy=remedy)
    groups = _ordered(study, {point: [read_evaluation(c.folder.path) for c in cells] for point, cells in finished.items()})
    config = study.cells[0].config
    before = config.eval.before and study.file.reference is None
    if before:
        first = next(iter(finished.values()))
        groups = {BASE: [read_evaluation(cell.folder.path, 0) for cell in first], **groups}
    found = compare_groups(groups, ks=config.eval.k)
    rows = [_row(point, finished.get(point, []), study.file.smoothing, found) for point in groups]
    head = {"name": study.file.name, "runs": len(study.cells), "finished": done, "smoothing": study.file.smoothing}
    return {**found, "study": {**head, "rows": rows}}, groups


def _ordered(study: Study, groups: Mapping[str, Sequence[Evaluation]]) -> dict[str, Sequence[Evaluation]]:
    """The reference first, the others in the order of the study."""
    reference = study.file.reference
    if reference is not None and reference not in groups:
        raise UsageError("the point that others are compared with has no finished run", value=reference, key="reference")
    return {point: groups[point] for point in sorted(groups, key=lambda point: point != reference)}


def _row(point: str, cells: Sequence[Cell], smoothing: float, found: Mapping[str, Any]) -> dict[str, Any]:
    """One point: its cost, its training reward over seeds, and by task its scores, each a mean with intervals."""
    scores = {task: _scores(one["metrics"][point]) for task, one in found["tasks"].items()}
    row: dict[str, Any] = {"point": point, "seeds": [cell.seed for cell in cells], "tasks": scores}
    if len(scores) > 1:
        row["average"] = _average(list(scores.values()))
    if cells:
        config = cells[0].config
        row |= {"updates": updates(config), "responses": responses(config)}
        row["reward"] = _summary([smoothed_rewards(cell, smoothing) for cell in cells])
    return row


def _scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in metrics.items() if SCORES.fullmatch(name)}


def _average(tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each metric that all tasks have, averaged over them with equal weights, seed by seed."""
    names = [name for name in tasks[0] if all(name in task for task in tasks)]
    by_seed = {name: np.mean([task[name].get("seeds", [task[name]["mean"]]) for task in tasks], axis=0) for name in names}
    return {name: _summary([float(value) for value in values]) for name, values in by_seed.items()}


def _summary(values: Sequence[float]) -> dict[str, Any]:
    spread = over_seeds(values)
    return {"mean": float(np.mean(values)), "seeds": list(values), **({"over_seeds": asdict(spread)} if spread else {})}


def smoothed_rewards(cell: Cell, decay: float) -> float:
    """The smoothed mean training reward after the last update."""
    rows = scan(cell.folder.metrics)[0]
    return debiased_ema((row[REWARD_MEAN] for row in rows if row.get(REWARD_MEAN) is not None), decay)[-1]


def debiased_ema(values: Iterable[float], decay: float) -> list[float]:
    """Exponential moving means from 0, each over the weight it has got so far (arXiv 2608.27351, table 6)."""
    found, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = decay * mean + (1 - decay) * value, decay * weight + 1 - decay
        found.append(mean / weight)
    return found


def updates(config: Config) -> int:
    return sum(config.phases[name].updates for name in config.pipeline)


def responses(config: Config) -> int:
    """Responses generated in training: what is equal where budgets are."""
    phases = [config.phases[name] for name in config.pipeline]
    return config.task.batch_size * sum(phase.updates * phase.evaluations for phase in phases)
