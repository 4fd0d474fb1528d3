"""The run folder: where everything of one run lies (docs/monitoring.md lists it)."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from es_mpi.checkpoint.files import replacing
from es_mpi.checkpoint.jsonl import write_zipped
from es_mpi.errors import UsageError


def write_json(path: Path, value: object) -> None:
    """Replace `path` by `value` as indented JSON, all at once. Raises ValueError for NaN or infinity."""
    text = json.dumps(value, allow_nan=False, indent=2) + "\n"
    with replacing(path) as file:
        file.write(text.encode("ascii"))


class RunFolder:
    """Paths of one run and the writes that belong to no other file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.journal = path / "journal.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tb"
        self.checkpoints = path / "checkpoints"
        self.eval = path / "eval"
        self.logs = path / "logs"
        self.summary = path / "summary.json"
        self.lock_file = path / ".lock"

    def create(self, config_yaml: str) -> None:
        """Make the folder, with the resolved config in it.

        Raises UsageError when something of that name exists or the place is not writable; nothing is left behind then.
        """
        self.refuse_existing()
        made = False  # what is not ours (another job may be as fast) is never removed
        try:
            self.path.mkdir(parents=True)
            made = True
            for folder in (self.tensorboard, self.checkpoints, self.eval, self.logs):
                folder.mkdir()
            self.write_config(config_yaml)
        except OSError as error:
            if made:
                shutil.rmtree(self.path, ignore_errors=True)
            raise UsageError(
                f"the run folder cannot be made: {error.strerror}",
                value=str(self.path),
                expected="a place you may write to",
                key="run.dir",
            ) from error

    def write_config(self, config_yaml: str) -> None:
        """Replace the resolved config, all at once."""
        with replacing(self.config) as file:
            file.write(config_yaml.encode())

    def refuse_existing(self) -> None:
        """Raises UsageError when something of that name exists."""
        if self.path.exists() or self.path.is_symlink():
            raise UsageError(
                f"{self.path} exists",
                value=self.path.name,
                expected="a name that no run in this folder has",
                key="run.name",
                remedy=f"choose another name, or continue that run: es-mpi resume {self.path}",
            )

    def require(self) -> None:
        """Raises UsageError unless this is the folder of a run."""
        if not self.config.is_file():
            raise UsageError(
                f"{self.path} is not a run folder",
                expected=f"a folder with {self.config.name}, made by es-mpi train",
                remedy="name a run folder (runs/NAME)",
            )

    def lock(self) -> TextIO:
        """Keep other jobs out for as long as the returned file is open; a killed process lets go of it by itself.

        Raises UsageError when another job has the folder, which is named, or when the folder is read-only. A file system
        without locks keeps nobody out.
        """
        try:
            file = self.lock_file.open("a+", encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"the run folder cannot be written: {error.strerror}", value=str(self.path), key="run.dir",
                expected="a folder that you may write to",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise UsageError(
                f"another job is working on {self.path}", value=holder or None, key="run.name",
                remedy="wait for its end, or choose another name",
            ) from None
        except OSError:
            pass  # no locks here (some network file systems)
        with suppress(OSError):  # a full disk: the lock holds without a name on it
            file.truncate(0)
            file.write(_this_job())
            file.flush()
        return file

    def open_attempt(self) -> int:
        """Make `logs/attempt_N` for the next N, point `logs/latest` at it; returns N. For one rank, which tells the others."""
        attempt = 1
        while (self.logs / f"attempt_{attempt}").exists():
            attempt += 1
        (self.logs / f"attempt_{attempt}").mkdir(parents=True)
        link = self.logs / ".latest.tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(f"attempt_{attempt}")
        link.replace(self.logs / "latest")
        return attempt

    def rank_log(self, attempt: int, rank: int) -> Path:
        """Where `rank` logs. By number and not through `latest`, which another node may still see as it was."""
        return self.logs / f"attempt_{attempt}" / f"rank_{rank}.log"

    def write_samples(self, task: str, step: int, rows: Iterable[Mapping[str, object]]) -> Path:
        """Write `eval/<task>/step_NNNNNN.jsonl.gz`, one row a response; equal rows give equal bytes."""
        path = self.eval / task / f"step_{step:06d}.jsonl.gz"
        write_zipped(path, rows)
        return path


def _this_job() -> str:
    """Who holds the lock, for the job that finds it held."""
    slurm = os.environ.get("SLURM_JOB_ID")
    job = f"Slurm job {slurm}, " if slurm else ""
    return f"{job}process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S %Z')}\n"
