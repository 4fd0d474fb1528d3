"""The training task, its problems and its grader as a config's `task` section asks for them."""

from __future__ import annotations

from dataclasses import replace

from es_mpi.config.schema import EvalConfig, GradingConfig, TaskConfig
from es_mpi.errors import UsageError
from es_mpi.grading.service import Grading
from es_mpi.tasks.base import Task
from es_mpi.tasks.registry import make_task
from es_mpi.types import Problem


def training_task(settings: TaskConfig) -> Task:
    """Raises UsageError for an unknown task or option."""
    return make_task(
        settings.name, train=settings.train, heldout=settings.heldout, system=settings.system, options=settings.options
    )


def evaluation_task(settings: TaskConfig, evaluation: EvalConfig, training: Task, name: str) -> Task:
    """The task called `name` of an evaluation: the training task's own problems, or another task with its default options.

    `evaluation.data` may name other problems. Raises UsageError as `training_task` does.
    """
    data = evaluation.data.get(name)
    if name not in (training.name, settings.name):
        return make_task(name, heldout=data, key="eval.tasks")
    return training_task(replace(settings, heldout=data)) if data else training


def training_problems(settings: TaskConfig, task: Task) -> list[Problem]:
    """The problems that updates draw from. Raises UsageError for data that is missing, broken or less than a batch."""
    return batchable(task.problems("train")[: settings.train_size], settings, task)


def batchable(problems: list[Problem], settings: TaskConfig, task: Task) -> list[Problem]:
    """`problems`, if there are enough for a batch. Raises UsageError."""
    if settings.batch_size > len(problems):
        raise UsageError(
            "a batch is larger than the training data",
            value=settings.batch_size,
            expected=f"at most {len(problems)}, the problems of {settings.train or task.name}",
            key="task.batch_size",
        )
    return problems


def training_grading(settings: TaskConfig, grading: GradingConfig, task: Task) -> Grading:
    """The config's reward, or the task's own, not yet started. Raises UsageError for an unknown one."""
    return Grading(settings.reward or task.reward, grading)
