"""The graders by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from es_mpi.grading.boxed import boxed_string
from es_mpi.grading.line import first_line
from es_mpi.grading.named import find
from es_mpi.grading.number import last_number
from es_mpi.types import Grade

Grader = Callable[[str, str, bool], Grade]
"""(response, reference answer, truncated) -> Grade. Pure and linear in the response, which is hostile input."""

GRADERS: Mapping[str, Grader] = {
    "boxed_string": boxed_string,
    "boxed_string_strict": partial(boxed_string, empty_box=0.0),
    "last_number": last_number,
    "first_line": first_line,
}


def make_grader(name: str) -> Grader:
    """The grader a config calls `name`, or a user's `module:function`. UsageError when there is none."""
    return find(name, GRADERS, key="task.reward")
