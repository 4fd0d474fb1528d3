"""What one rank writes for all: the journal and every number that is shown."""

from __future__ import annotations

import time
from typing import TextIO

from es_mpi.checkpoint.journal import Journal, read_journal
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.config.schema import MonitorConfig
from es_mpi.errors import TryAgain, UsageError
from es_mpi.monitoring.monitor import Monitor, open_monitor
from es_mpi.phases.context import StepReport

_RELEASE_S = 10.0  # the lock of a process that died is free once the kernel has closed its files


class Scribe:
    """Rank 0's books. On the other ranks they stay shut, until rank 0 dies and one of them becomes rank 0.

    monitor   silent while the books are shut
    recorded  steps in the journal
    """

    def __init__(self, folder: RunFolder, config: MonitorConfig, total: int) -> None:
        self.monitor = Monitor()
        self.recorded = 0
        self._folder, self._config, self._total = folder, config, total
        self._journal: Journal | None = None
        self._lock: TextIO | None = None
        self._shown: int | None = None  # newest step in the metrics

    def open_journal(self, recorded: int) -> None:
        self._journal, self.recorded = Journal(self._folder.journal), recorded

    def open_monitor(self, done: int, *, resumed: bool) -> None:
        """Numbers of steps after `done` will be shown; those that are there already are dropped. Once open it stays."""
        if self._shown is None:
            self._shown = done
            self.monitor = open_monitor(
                0, self._folder, console=self._config.console, tensorboard=self._config.tensorboard,
                total=self._total, resume_step=done if resumed else None,
            )

    def take_over(self) -> None:
        """Open the journal where a dead rank 0 left it. Raises TryAgain when its lock stays held: then it is not dead."""
        if self._journal:
            return
        self._lock = self._wait_for_lock()
        self.open_journal(0)  # cuts a torn tail off, so that what is read next is whole
        self.recorded = len(read_journal(self._folder.journal))

    def add(self, report: StepReport, done: int, phase: str) -> None:
        """Step `done`, once each: shown first, since a resumed run drops what is shown of a step that is not recorded."""
        if self._shown is not None and done > self._shown:
            self.monitor.log(done, report.metrics, phase)
            for text in report.warnings:
                self.monitor.warn(f"update {done}: {text}")
            self._shown = done
        if self._journal and done > self.recorded:
            self._journal.append(report.record)  # from here on the step exists
            self.recorded = done

    def close(self) -> None:
        self.monitor.close()
        for file in (self._journal, self._lock):
            if file:
                file.close()

    def _wait_for_lock(self) -> TextIO:
        end = time.monotonic() + _RELEASE_S
        while True:
            try:
                return self._folder.lock()
            except UsageError as error:
                if time.monotonic() > end:
                    raise TryAgain(f"rank 0 is lost, but the run folder is still locked: {error}") from error
            time.sleep(0.02)
