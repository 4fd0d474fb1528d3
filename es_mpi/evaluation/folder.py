"""Evaluations on disk: what `es-mpi eval` writes, and what can be compared: such folders, and run folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from es_mpi.checkpoint.jsonl import read_zipped, scan, write_zipped
from es_mpi.checkpoint.run_folder import RunFolder, write_json
from es_mpi.config.load import load_resolved
from es_mpi.config.schema import Config
from es_mpi.errors import UsageError, did_you_mean
from es_mpi.evaluation.rows import Row

RESULTS, SAMPLES = "results.json", "samples.jsonl.gz"
NEEDED = {"problem", "sample", "question", "answer", "response", "extracted", "verdict", "truncated", "token_ids"}


@dataclass(frozen=True)
class TaskRows:
    """The responses of one task and how they were made: settings by name, for those that are known."""

    rows: Sequence[Row]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """One evaluated model. `curves` are the metrics.jsonl rows of its run, if it has one."""

    path: Path
    tasks: Mapping[str, TaskRows]
    curves: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


def write_evaluation(folder: Path, facts: Mapping[str, Any], rows: Mapping[str, Sequence[Row]]) -> None:
    """<task>/samples.jsonl.gz for every task of `rows`, then results.json with `facts`: where it is, the folder is whole."""
    for task, responses in rows.items():
        write_zipped(folder / task / SAMPLES, responses)
    write_json(folder / RESULTS, facts)


def read_evaluation(path: Path, step: int | None = None) -> Evaluation:
    """The evaluation in `path`: of `es-mpi eval`, or of a run folder's evaluation after `step` (default: the last one).

    Raises UsageError for a folder that is neither, a missing step and damaged files.
    """
    if (path / RESULTS).is_file():
        if step is not None:
            raise UsageError("only run folders have steps", value=str(path), key="step", remedy="leave it out")
        return _evaluated(path)
    folder = RunFolder(path)
    if folder.config.is_file():
        return _run(folder, step)
    raise UsageError(
        f"{path} holds no evaluation", expected=f"a folder that es-mpi eval finished (with {RESULTS}), or a run folder",
        remedy="es-mpi eval MODEL_OR_RUN --out DIR",
    )  # fmt: skip


def read_results(path: Path) -> dict[str, Any]:
    """results.json of an evaluation folder. Raises UsageError."""
    try:
        found = json.loads((path / RESULTS).read_text(encoding="utf-8"))
        if not isinstance(found["tasks"], dict):
            raise TypeError("tasks")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {path / RESULTS} ({error})", expected="a folder that es-mpi eval finished") from error
    return dict(found)


def _evaluated(path: Path) -> Evaluation:
    tasks = read_results(path)["tasks"]
    return Evaluation(path, {name: TaskRows(_rows(path / name / SAMPLES), facts["settings"]) for name, facts in tasks.items()})


def _run(folder: RunFolder, step: int | None) -> Evaluation:
    steps: dict[int, dict[str, Path]] = {}
    for file in folder.eval.rglob("step_*.jsonl.gz"):
        number = int(file.name.removeprefix("step_").removesuffix(".jsonl.gz"))
        steps.setdefault(number, {})[str(file.parent.relative_to(folder.eval))] = file
    if not steps:
        raise UsageError(f"{folder.path} has no evaluation yet", remedy="es-mpi eval RUN --out DIR evaluates any step of it")
    chosen = max(steps) if step is None else step
    if chosen not in steps:
        known = [str(number) for number in sorted(steps)]
        raise UsageError("no evaluation of that step", value=step, expected=", ".join(known), key="step")
    config = load_resolved(folder.path)
    curves = scan(folder.metrics)[0] if folder.metrics.exists() else []
    tasks = {task: TaskRows(_rows(file), _run_settings(config, task)) for task, file in steps[chosen].items()}
    return Evaluation(folder.path, tasks, curves)


def _run_settings(config: Config, task: str) -> dict[str, Any]:
    """What a run's config says of an evaluation: not all that results.json would."""
    reward = config.eval.rewards.get(task) or (config.task.reward if task == config.task.name else None)
    settings = {"samples": config.eval.samples, "temperature": config.eval.temperature, "top_p": config.eval.top_p}
    return {**settings, **({"reward": reward} if reward else {})}


def _rows(path: Path) -> list[Row]:
    rows: list[Row] = [*read_zipped(path)]
    for number, row in enumerate(rows, start=1):
        missing = sorted(NEEDED - row.keys())
        if missing:
            raise UsageError(
                f"line {number} of {path} lacks {', '.join(missing)}", expected="an evaluation of this version",
                remedy="evaluate again",
            )  # fmt: skip
    return rows


def chosen_tasks(evaluations: Sequence[Evaluation], wanted: Sequence[str]) -> list[str]:
    """The tasks that all of them have, or those of `wanted`. Raises UsageError where there are none."""
    common = [task for task in evaluations[0].tasks if all(task in other.tasks for other in evaluations[1:])]
    for task in wanted:
        if task not in common:
            raise UsageError("no task that all of them have", value=task, key="--tasks", remedy=did_you_mean(task, common))
    if not common:
        held = "; ".join(f"{one.path}: {', '.join(one.tasks)}" for one in evaluations)
        raise UsageError("these evaluations have no task in common", value=held)
    return list(wanted) or common
