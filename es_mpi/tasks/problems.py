"""Problems from rows, every field checked before anything is trained on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.errors import UsageError, did_you_mean
from es_mpi.tasks.rows import read_rows
from es_mpi.types import Problem

QUESTION, ANSWER = ("question", "problem", "prompt"), ("answer", "final_answer", "solution")


def load_problems(
    source: str, *, key: str, prefix: str, split: str = "train",
    question: Sequence[str] = QUESTION[:1], answer: Sequence[str] = ANSWER[:1],
) -> list[Problem]:  # fmt: skip
    """The problems of a data source: question and answer are the first field of those names that a row has.

    `id` is the row's own, else `prefix-<line>`. Other fields and blank lines are passed over. Raises UsageError with file and
    line (config key `key`) for a field that is missing, empty or no text, and an id that was there before.
    """
    problems: dict[str, Problem] = {}
    for where, number, row in read_rows(source, key=key, split=split):
        problem = Problem(
            id=_text({"id": f"{prefix}-{number}"} | row, ("id",), where, key),
            question=_text(row, question, where, key),
            answer=_text(row, answer, where, key),
        )
        if problem.id in problems:
            raise UsageError(f"{where}: this id was there before", value=problem.id, expected="an id of its own", key=key)
        problems[problem.id] = problem
    if not problems:
        raise UsageError("the data file is empty", value=source, expected="one problem a line", key=key)
    return list(problems.values())


def _text(row: Mapping[str, Any], fields: Sequence[str], where: str, key: str) -> str:
    """A field as text; numbers count, since many files hold answers as numbers, and so does a list of one."""
    name = next((field for field in fields if field in row), None)
    if name is None:
        raise UsageError(
            f"{where}: field {fields[0]!r} is missing", expected=" or ".join(fields), key=key, remedy=did_you_mean(fields[0], row)
        )
    value = row[name]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: field {name!r} is empty or no text", value=value, expected="text", key=key)
    return value
