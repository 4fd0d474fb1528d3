"""Files of one JSON object a line, which a kill can tear at the end only."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from es_mpi.checkpoint.files import replacing
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


def write_zipped(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write `path`, a gzip file of one row a line, all at once; equal rows give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
        for row in rows:
            zipped.write(encode(row))


def read_zipped(path: Path) -> list[Record]:
    """All rows of such a file. Raises UsageError for a file that is missing, cut off or damaged."""
    try:
        with gzip.open(path, "rb") as zipped:
            lines = zipped.read().splitlines(keepends=True)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {path} ({error})", expected="a gzip file that es-mpi wrote") from error
    rows = [_decode(line) for line in lines]
    if None in rows:
        raise UsageError(f"line {rows.index(None) + 1} of {path} is damaged", expected="one JSON object a line")
    return [row for row in rows if row is not None]
