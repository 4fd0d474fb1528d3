"""The training task, its problems and its grader as a config's `task` section asks for them."""

from __future__ import annotations

from es_mpi.config.schema import TaskConfig
from es_mpi.errors import UsageError
from es_mpi.grading.registry import Grader, make_grader
from es_mpi.tasks.base import Task
from es_mpi.tasks.registry import make_task
from es_mpi.types import Problem


def training_task(settings: TaskConfig) -> Task:
    """Raises UsageError for an unknown task or option."""
    return make_task(
        settings.name, train=settings.train, heldout=settings.heldout, system=settings.system, options=settings.options
    )


def training_problems(settings: TaskConfig, task: Task) -> list[Problem]:
    """The problems that updates draw from. Raises UsageError for data that is missing, broken or less than a batch."""
    problems = task.problems("train")[: settings.train_size]
    if settings.batch_size > len(problems):
        raise UsageError(
            "a batch is larger than the training data",
            value=settings.batch_size,
            expected=f"at most {len(problems)}, the problems of {settings.train or task.name}",
            key="task.batch_size",
        )
    return problems


def training_grader(settings: TaskConfig, task: Task) -> Grader:
    """The config's reward, or the task's own. Raises UsageError for an unknown one."""
    return make_grader(settings.reward or task.reward)
