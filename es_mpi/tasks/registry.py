"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature

from es_mpi.errors import UsageError, did_you_mean
from es_mpi.grading.named import find
from es_mpi.tasks.arithmetic import Arithmetic
from es_mpi.tasks.base import Task
from es_mpi.tasks.countdown import Countdown
from es_mpi.tasks.gym import ReasoningGym
from es_mpi.tasks.largest import Largest
from es_mpi.tasks.questions import KINDS, Questions

TASKS: Mapping[str, Callable[..., Task]] = {
    "arithmetic": Arithmetic,
    "countdown": Countdown,
    "largest": Largest,
    **{name: partial(Questions, name) for name in KINDS},
}
GYM = "reasoning_gym/"
_KNOWN = {**TASKS, f"{GYM}<data set>": ReasoningGym}  # for the error that suggests a name


def make_task(
    name: str,
    *,
    train: str | None = None,
    heldout: str | None = None,
    system: str | None = None,
    options: Mapping[str, object] | None = None,
    key: str = "task.name",
) -> Task:
    """The task a config calls `name`, or a user's `module:function`, with the settings of the config's `task` section.

    Raises UsageError for an unknown name, an unknown option, a setting that the task has no use for or that it lacks.
    """
    make = partial(ReasoningGym, name.removeprefix(GYM)) if name.startswith(GYM) else find(name, _KNOWN, key=key)
    takes = signature(make).parameters
    files = {"train": train, "heldout": heldout, "system": system}
    given = {word: value for word, value in files.items() if value is not None}
    for word in given:
        if word not in takes:
            raise UsageError(f"task {name!r} has no use for this", value=given[word], key=f"task.{word}", remedy="leave it out")
    own = [word for word in takes if word not in files]
    for word in options or {}:
        if word not in own:
            remedy = did_you_mean(word, own) if own else f"task {name!r} has no options"
            raise UsageError("no such option", key=f"task.options.{word}", remedy=remedy)
    settings = {**given, **(options or {})}
    for word, parameter in takes.items():
        if word not in settings and parameter.default is Parameter.empty:
            raise UsageError(f"task {name!r} needs this", key=f"task.{word}" if word in files else f"task.options.{word}")
    return make(**settings)
