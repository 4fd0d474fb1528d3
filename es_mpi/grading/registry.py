"""The graders by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from es_mpi.grading.boxed import boxed_string
from es_mpi.grading.choice import choice
from es_mpi.grading.countdown import countdown, solved
from es_mpi.grading.exact import exact
from es_mpi.grading.gym import library, reasoning_gym
from es_mpi.grading.library import load_library
from es_mpi.grading.line import first_line
from es_mpi.grading.named import find
from es_mpi.grading.number import last_number
from es_mpi.types import Grade

Grader = Callable[[str, str, bool], Grade]
"""(response, reference answer, truncated) -> Grade. A pure function; the response is hostile input."""


def _boxed(answer: str) -> str:
    return rf"\boxed{{{answer}}}"


def _marked(answer: str) -> str:
    return f"#### {answer}\n"


def _math_verify(response: str, answer: str, truncated: bool) -> Grade:
    from es_mpi.grading.verify import math_verify  # with what it imports a tenth of the start of every command

    return math_verify(response, answer, truncated)


@dataclass(frozen=True)
class Entry:
    """A grader and what must be known to use it.

    `pooled`: its time is not bounded by its making, so it runs in processes that can be killed. `respond` makes a response that
    gives an answer, to grade a reference against itself. `load` imports what the grader needs, before its time is measured.
    """

    grade: Grader
    respond: Callable[[str], str] | None = None
    pooled: bool = False
    load: Callable[[], object] | None = None

    def loaded(self) -> Grader:
        if self.load:
            self.load()
        return self.grade


ENTRIES: Mapping[str, Entry] = {
    "boxed_string": Entry(boxed_string, _boxed),
    "boxed_string_strict": Entry(partial(boxed_string, empty_box=0.0), _boxed),
    "choice": Entry(choice, _boxed),
    "countdown": Entry(countdown, solved),
    "exact": Entry(exact, _boxed),
    "first_line": Entry(first_line, lambda answer: f"{answer}\n"),
    "last_number": Entry(last_number, _marked),
    "math_verify": Entry(_math_verify, _boxed, pooled=True, load=load_library),
    "reasoning_gym": Entry(reasoning_gym, pooled=True, load=library),
}
GRADERS: Mapping[str, Grader] = {name: entry.grade for name, entry in ENTRIES.items()}


def make_grader(name: str) -> Grader:
    """The grader a config calls `name`, or a user's `module:function`. UsageError when there is none."""
    return find(name, GRADERS, key="task.reward")


def find_grader(name: str) -> Entry:
    """The entry of `name`; a user's own runs in processes that can be killed. UsageError when there is none."""
    return ENTRIES.get(name) or Entry(make_grader(name), pooled=True)
