"""What a config points at, looked at without loading it: the model folder, the task and its data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from es_mpi.config import Config
from es_mpi.errors import UsageError
from es_mpi.grading.registry import make_grader
from es_mpi.params.layout import Layout, read_config, read_layout
from es_mpi.tasks.base import Task
from es_mpi.tasks.registry import make_task
from es_mpi.types import Problem


def layout_of(config: Config) -> Layout | None:
    """The parameters of the config's model from the headers of its weights; None where there is no folder to look at
    (a hub id). Raises UsageError for a missing, broken or quantised model folder."""
    if is_hub_id(config.model.path):
        return None
    return read_layout(config.model.path, config.model.include, config.model.exclude)


def is_hub_id(path: str) -> bool:
    """Whether `owner/name` is meant for the hub. Where a folder `owner` exists (or is ours, `models`), a missing folder is."""
    owner = Path(path).parent
    return bool(re.fullmatch(r"[\w-]+/[\w.-]+", path)) and not (owner.exists() or owner.name == "models")


def task_of(config: Config) -> Task:
    """The training task. Raises UsageError for an unknown task, option or reward."""
    settings = config.task
    task = make_task(
        settings.name, train=settings.train, heldout=settings.heldout, system=settings.system, options=settings.options
    )
    make_grader(settings.reward or task.reward)
    return task


def training_problems(config: Config, task: Task) -> list[Problem]:
    """The problems that updates draw from. Raises UsageError for data that is missing, broken or less than a batch."""
    problems = task.problems("train")[: config.task.train_size]
    if len(problems) < config.task.batch_size:
        raise UsageError(
            "a batch is larger than the training data",
            value=config.task.batch_size,
            expected=f"at most {len(problems)}",
            key="task.batch_size",
        )
    return problems


def warnings(config: Config, layout: Layout | None) -> Iterator[str]:
    """What is allowed, but rarely meant."""
    folder = Path(config.run.dir) / config.run.name
    if folder.exists():
        yield f"run.name: {folder} exists: es-mpi train will refuse it; es-mpi resume continues it"
    if layout is not None:
        most = read_config(layout.folder).get("max_position_embeddings")
        if isinstance(most, int) and config.model.max_model_len > most:
            yield f"model.max_model_len: {config.model.max_model_len} is beyond the model's {most} positions"
        fixed = layout.parameters - layout.trained_parameters
        if fixed:
            yield f"model.include / model.exclude: {fixed:,} parameters stay as they are"
    for name, phase in config.phases.items():
        if name not in config.pipeline:
            yield f"pipeline: phase {name} is not in it and will not run"
        if phase.alpha == 0 or phase.updates == 0:
            yield f"phases.{name}: alpha or updates is 0: no weight will move"
