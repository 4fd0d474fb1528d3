"""metrics.jsonl: every number that TensorBoard shows, exact, one line a report."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

from es_mpi.checkpoint.files import AppendFile, replacing
from es_mpi.checkpoint.jsonl import encode, scan


class MetricsFile:
    """Appends `{"step": 3, "time": 1.7e9, "reward/mean": 0.25, ...}`; NaN and infinity become null.

    `resume_step` is the last step the resumed run still has: rows of later steps are dropped. Raises UsageError when
    the file is damaged before its last line, OSError when it cannot be written.
    """

    def __init__(self, path: Path, resume_step: int | None = None) -> None:
        if path.exists():
            rows, _ = scan(path)
            with replacing(path) as file:
                file.writelines(encode(row) for row in rows if resume_step is None or row["step"] <= resume_step)
        self._file = AppendFile(path)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Raises OSError when the disk refuses; the file then ends where it ended before."""
        exact = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        self._file.append(encode({"step": step, "time": time.time(), **exact}))

    def close(self) -> None:
        self._file.close()
