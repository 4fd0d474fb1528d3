"""The journal: one line a step. A step exists when its line is on disk; base model + journal = the weights of any step."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from es_mpi.checkpoint.files import AppendFile
from es_mpi.checkpoint.jsonl import Record, encode, scan
from es_mpi.errors import TryAgain, UsageError

_log = logging.getLogger(__name__)


def read_journal(path: Path) -> list[Record]:
    """All recorded steps, oldest first. A torn last line is no step: it is left out with a warning.

    Raises UsageError when the file is missing or damaged before its last line.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist", expected="the journal of a run", remedy="name a run folder (runs/NAME)")
    records, end = scan(path)
    torn = path.stat().st_size - end
    if torn > 0:
        _log.warning("%s: line %d is torn (%d bytes) and left out: its step was never finished", path, len(records) + 1, torn)
    return records


def repair(path: Path) -> int:
    """Cut the torn tail off, so that the next line starts a line of its own. Returns the number of bytes cut."""
    _, end = scan(path)
    torn = path.stat().st_size - end
    if torn > 0:
        os.truncate(path, end)  # one call: a kill leaves either tail or no tail; the next append's fsync makes it durable
    return torn


def cut(path: Path, steps: int) -> None:
    """Keep only the first `steps` records: the later ones are made again. Only for the one process that writes."""
    with path.open("rb") as file:
        end = sum(len(file.readline()) for _ in range(steps))
    os.truncate(path, end)


class Journal:
    """The writing end, held by one process. Opening it creates the file, or repairs the tail of the one that is there.

    Raises UsageError when the file cannot be opened for writing or is damaged before its last line.
    """

    def __init__(self, path: Path) -> None:
        try:
            if path.exists():
                repair(path)
            self._file = AppendFile(path, durable=True)
        except OSError as error:
            raise UsageError(f"the journal cannot be opened: {error.strerror}", value=str(path), key="run.dir") from error

    def append(self, record: Mapping[str, object]) -> None:
        """Record one step; it is on disk when this returns.

        Raises TryAgain when the disk refuses; the file then ends where it ended before and the step does not exist.
        """
        line = encode(record)
        try:
            self._file.append(line)
        except OSError as error:
            path = self._file.path
            raise TryAgain(
                f"step {record.get('step')} could not be recorded ({len(line)} bytes): {error.strerror}: {path}\n"
                f"  the run stops at the step before, which is whole\n"
                f"  remedy    make room on that disk, then: es-mpi resume {path.parent}"
            ) from error

    def close(self) -> None:
        self._file.close()
