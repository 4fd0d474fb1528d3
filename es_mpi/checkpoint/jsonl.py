"""Files of one JSON object a line, which a kill can tear at the end only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from es_mpi.errors import UsageError

Record = dict[str, Any]


def encode(record: Mapping[str, object]) -> bytes:
    """One line with its newline, ASCII only; floats come back bit for bit.

    Raises ValueError for NaN or infinity, which JSON cannot say.
    """
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def scan(path: Path) -> tuple[list[Record], int]:
    """All whole records of `path` and the byte offset at which the last of them ends.

    An offset short of the file's size marks a torn tail: a last line without its newline (its append never
    returned) or one that does not parse. Raises UsageError when any line before the last is not a JSON object.
    """
    records: list[Record] = []
    end = 0
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, start=1):
        record = _decode(line)
        if record is None:
            if number == len(lines):
                break
            raise UsageError(
                f"line {number} of {path} is damaged",
                value=line[:80],
                expected="one JSON object a line; only the last line may be incomplete",
                remedy="restore the file from a copy: the lines after this one depend on it",
            )
        records.append(record)
        end += len(line)
    return records, end


def _decode(line: bytes) -> Record | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
