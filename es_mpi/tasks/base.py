"""What a task is."""

from __future__ import annotations

from typing import Literal, Protocol

from es_mpi.errors import UsageError
from es_mpi.types import Message, Problem, PromptText

Split = Literal["train", "heldout"]


class Task(Protocol):
    """A source of problems, each with a prompt and a reference answer.

    A user's own is any object like this, made by a class or function that the config names as `module:function`. It
    is called with those of `train`, `heldout` and `system` that the config sets, and with `task.options`, all by keyword.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Grows with every change of problems or prompts, so that results of different versions are never compared."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end a response."""

    @property
    def reward(self) -> str:
        """The grader that fits this task's answers, by name."""

    def problems(self, split: Split) -> list[Problem]:
        """All problems of a split, always in the same order. No problem is in both."""

    def prompt(self, problem: Problem) -> PromptText: ...


def chat(question: str, system: str | None) -> list[Message]:
    """A question as the user's turn, after a system message if there is one."""
    turns: list[Message] = [{"role": "system", "content": system}] if system else []
    return [*turns, {"role": "user", "content": question}]


def check_shots(shots: object, most: int) -> None:
    """UsageError unless `shots` is a whole number from 0 to `most`."""
    if isinstance(shots, bool) or not isinstance(shots, int) or not 0 <= shots <= most:
        raise UsageError(
            "cannot show so many examples", value=shots, expected=f"a whole number from 0 to {most}", key="task.options.shots"
        )
