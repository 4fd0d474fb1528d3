"""Problems from a JSON Lines file, every row checked before anything is trained on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from es_mpi.errors import UsageError
from es_mpi.types import Problem


def load_problems(path: str, *, key: str, prefix: str) -> list[Problem]:
    """The problems of a file with one object a line: `question`, `answer`, and if it likes `id` (else `prefix-<line>`).

    Other fields and blank lines are passed over. Raises UsageError with file and line number (config key `key`) for a
    line that is no JSON object, a question, answer or id that is missing, empty or no text, and an id that was there before.
    """
    problems: dict[str, Problem] = {}
    for number, line in _lines(path, key):
        where = f"{path}, line {number}"
        row = _row(line, where, key)
        problem = Problem(
            id=_text({"id": f"{prefix}-{number}"} | row, "id", where, key),
            question=_text(row, "question", where, key),
            answer=_text(row, "answer", where, key),
        )
        if problem.id in problems:
            raise UsageError(f"{where}: this id was there before", value=problem.id, expected="an id of its own", key=key)
        problems[problem.id] = problem
    if not problems:
        raise UsageError("the data file is empty", value=path, expected="one problem a line", key=key)
    return list(problems.values())


def _lines(path: str, key: str) -> Iterator[tuple[int, str]]:
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    except OSError as error:
        raise UsageError(f"cannot read the data file ({error.strerror})", value=path, key=key) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the data file is not UTF-8 text ({error})", value=path, key=key) from error


def _row(line: str, where: str, key: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # deep nesting, a number of thousands of digits
        raise UsageError(f"{where}: not JSON ({error})", value=line.strip()[:80], expected="one JSON object", key=key) from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an object", value=line.strip()[:80], expected='{"question": ..., "answer": ...}', key=key)
    return row


def _text(row: dict[str, Any], field: str, where: str, key: str) -> str:
    """A field as text; numbers count, since many files hold answers as numbers."""
    value = row.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        state = "is missing" if field not in row else "is empty or no text"
        raise UsageError(f"{where}: field {field!r} {state}", value=value, expected="text", key=key)
    return value
