"""One call a report, shown in every place that is asked for: console, TensorBoard, metrics.jsonl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.monitoring import tags
from es_mpi.monitoring.console import Console, EvalRow, Mode, silence_stdout
from es_mpi.monitoring.metrics import MetricsFile


class Sink(Protocol):
    """A file that numbers go to. `log` raises OSError when the disk refuses."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Monitor:
    """Monitoring never stops a run: a file that cannot be written costs a warning, and the journal goes on.

    `Monitor()` shows nothing; it is what every rank but the first gets.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._sinks: dict[str, Sink] = {}
        self._warned: set[str] = set()

    def add(self, name: str, open_sink: Callable[[], Sink]) -> None:
        """Send numbers to one more file, if it can be opened."""
        try:
            self._sinks[name] = open_sink()
        except OSError as error:
            self._warn_once(f"{name} cannot be written: {error.strerror}; the run goes on without it")

    def log(self, step: int, values: Mapping[str, float], phase: str = "") -> None:
        """Report `values`, by tag (see tags.py), of update `step`; each tag once a step."""
        exact = {tag: float(value) for tag, value in values.items()}
        for tag in exact:
            if not tags.known(tag):
                self._warn_once(f"{tag} is no documented tag")
        for name, sink in self._sinks.items():
            try:
                sink.log(step, exact)
            except OSError as error:
                self._warn_once(f"{name} misses step {step}, perhaps more: {error.strerror}; the run goes on", about=name)
        self._tell(lambda console: console.log(step, exact, phase))

    def note(self, text: str) -> None:
        self._tell(lambda console: console.note(text))

    def warn(self, text: str) -> None:
        self._tell(lambda console: console.warn(text))

    def before_after(self, rows: Iterable[EvalRow]) -> None:
        self._tell(lambda console: console.before_after(rows))

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._tell(Console.close)

    def _tell(self, say: Callable[[Console], None]) -> None:
        """Say it where somebody listens: a pipe whose reader is gone, or a full disk, silences the console for good."""
        if self._console:
            try:
                say(self._console)
            except (OSError, ValueError, SystemExit):  # rich makes the last of a closed pipe
                self._console = None
                silence_stdout()

    def _warn_once(self, text: str, about: str = "") -> None:
        about = about or text
        if about not in self._warned:
            self._warned.add(about)
            self.warn(text)


def open_monitor(
    rank: int, folder: RunFolder, *, console: Mode, tensorboard: bool, total: int, resume_step: int | None = None
) -> Monitor:
    """The monitor of `rank`, with everything on rank 0 and nothing elsewhere.

    `resume_step` is the last step a resumed run still has (None in a new run): what was shown of later ones is
    dropped, since those steps are made again. Raises UsageError when metrics.jsonl is damaged before its last line.
    """
    if rank != 0:
        return Monitor()
    monitor = Monitor(Console(console, total=total, start=resume_step or 0))
    monitor.add(folder.metrics.name, lambda: MetricsFile(folder.metrics, resume_step))
    if tensorboard:
        from es_mpi.monitoring.tensorboard import TensorBoardFile  # a heavy import that only this run asked for

        monitor.add("TensorBoard", lambda: TensorBoardFile(folder.tensorboard, resume_step))
    return monitor
