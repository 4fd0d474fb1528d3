"""What a run achieved, read back from its own metrics: the table that ends it and summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import es_mpi
from es_mpi.checkpoint.jsonl import scan
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.monitoring.console import EvalRow, Interval
from es_mpi.monitoring.tags import EVAL
from es_mpi.runner.prepare import Prepared


def before_after(folder: RunFolder, done: int) -> list[EvalRow]:
    """One row for each metric that was measured both on the base model and after step `done`."""
    rows = _rows(folder)
    first, last = _evaluation(rows, 0), _evaluation(rows, done)
    return [EvalRow(task, metric, first[task, metric], last[task, metric]) for task, metric in first if (task, metric) in last]


def evaluated(folder: RunFolder, step: int) -> bool:
    """Whether the metrics hold an evaluation of the weights after `step`."""
    return bool(_evaluation(_rows(folder), step))


def summary(prepared: Prepared, done: int, digest: str, seconds: float, ranks: int) -> dict[str, Any]:
    """The content of summary.json. `seconds` are those of the last attempt, from its engine's start."""
    gains = {
        f"{row.task}/{row.metric}": {"before": row.before._asdict(), "after": row.after._asdict()}
        for row in before_after(prepared.folder, done)
    }
    return {
        "name": prepared.config.run.name, "seed": prepared.config.run.seed, "model": prepared.config.model.path,
        "parameters": prepared.layout.parameters, "trained_parameters": prepared.layout.trained_parameters,
        "updates": done, "ranks": ranks, "seconds": round(seconds, 3), "digest": digest, "evaluation": gains,
        "es_mpi": es_mpi.__version__,
    }


def _rows(folder: RunFolder) -> list[Mapping[str, Any]]:
    return list(scan(folder.metrics)[0]) if folder.metrics.exists() else []


def _evaluation(rows: list[Mapping[str, Any]], step: int) -> dict[tuple[str, str], Interval]:
    """(task, metric) to value for the last evaluation of `step`."""
    found: dict[tuple[str, str], Interval] = {}
    for row in rows:
        for tag, value in row.items() if row["step"] == step else ():
            match = EVAL.fullmatch(tag)
            if match and not match["bound"] and value is not None:
                found[match["task"], match["metric"]] = Interval(value, row[f"{tag}_low"], row[f"{tag}_high"])
    return found
