"""TensorBoard event files, the only place that knows the library. Needs neither torch nor TensorFlow.

The library's own writer hands records to a thread, which is where a full disk would then be noticed: records are
framed here and appended whole instead, so that each step is on disk when `log` returns and an error reaches the caller.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from es_mpi.checkpoint.files import AppendFile


class TensorBoardFile:
    """One event file in `folder`, read after those of earlier attempts.

    `resume_step` is the last step the resumed run still has: TensorBoard is told to forget the points of later steps.
    Raises OSError when the file cannot be written.
    """

    def __init__(self, folder: Path, resume_step: int | None = None) -> None:
        # TensorBoard reads files in the order of their names, and the usual time stamp need not grow: two attempts may share
        # a second, a clock may go back. So number them.
        attempt = len(list(folder.glob("events.out.tfevents.*")))
        self._file = AppendFile(folder / f"events.out.tfevents.{attempt:010d}.es_mpi")
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # A START makes TensorBoard forget points from its step on, all but the first that it meets: the new run writes one too.
        kept = 0 if resume_step is None else resume_step + 1
        self._write(Event(wall_time=time.time(), step=kept, session_log=SessionLog(status=SessionLog.START)))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Show each value (rounded to fp32, as TensorBoard does) under its tag. Raises OSError when the disk refuses."""
        points = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def close(self) -> None:
        self._file.close()

    def _write(self, event: Event) -> None:
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        self._file.append(record.getvalue())
