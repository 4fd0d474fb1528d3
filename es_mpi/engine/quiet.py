"""Send what libraries print to the rank's log file: one line on the console, the wall of text where it can be read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """Within the block, file descriptors 1 and 2 of this process (C libraries included) append to `log`."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (*saved, target):
            os.close(descriptor)


@contextmanager
def keeping(variable: str) -> Iterator[None]:
    """Within the block a library may change an environment variable; afterwards it is what it was."""
    before = os.environ.get(variable)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


def logging_config(log: Path, level: str = "INFO") -> Path:
    """A logging configuration file beside `log` that sends vLLM's logger there; vLLM reads its path from
    VLLM_LOGGING_CONFIG_PATH."""
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
        "handlers": {"file": {"class": "logging.FileHandler", "formatter": "plain", "filename": str(log)}},
        "loggers": {"vllm": {"handlers": ["file"], "level": level, "propagate": False}},
    }
    path = log.with_suffix(".logging.json")
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
