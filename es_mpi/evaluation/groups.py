"""A comparison of groups of evaluations: one group a method, its evaluations of different training seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.evaluation.comparison import Side, compare_task, correct
from es_mpi.evaluation.folder import Evaluation, chosen_tasks

Groups = Mapping[str, Sequence[Evaluation]]


def compare_groups(groups: Groups, tasks: Sequence[str] = (), ks: Sequence[int] | None = None) -> dict[str, Any]:
    """`names` (the first is the reference), `folders` and `tasks` (see `compare_task`, p corrected) as a JSON value.

    `tasks` are all that they share, or those named. Raises UsageError as `chosen_tasks` and `compare_task` do.
    """
    every = [one for held in groups.values() for one in held]
    found = {task: compare_task(_sides(groups, task), ks) for task in chosen_tasks(every, tasks)}
    correct(found)
    folders = {name: [str(one.path) for one in held] for name, held in groups.items()}
    return {"names": list(groups), "folders": folders, "tasks": found}


def _sides(groups: Groups, task: str) -> list[Side]:
    held = {name: [one.tasks[task] for one in evaluations] for name, evaluations in groups.items()}
    return [Side(name, [one.rows for one in side], [one.settings for one in side]) for name, side in held.items()]
