"""The errors a user can meet, each with the exit code the process ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_TRY_AGAIN = 75
EXIT_DIVERGED = 76


class EsMpiError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = EXIT_INTERNAL


class UsageError(EsMpiError):
    """Bad input: a config value, a file, a command line, a launcher.

    The message is built from its parts so that none is forgotten: what happened, the value that was
    found, what was expected, the config key (dot path) and what to do instead.
    """

    exit_code = EXIT_USAGE

    def __init__(
        self,
        what: str,
        *,
        value: object = None,
        expected: str = "",
        key: str = "",
        remedy: str = "",
    ) -> None:
        parts = [f"{key}: {what}" if key else what]
        if value is not None:
            parts.append(f"  found     {value!r}")
        if expected:
            parts.append(f"  expected  {expected}")
        if remedy:
            parts.append(f"  remedy    {remedy}")
        super().__init__("\n".join(parts))
        self.key = key


class TryAgain(EsMpiError):
    """The job stopped before its work was done, and `es-mpi resume` continues it."""

    exit_code = EXIT_TRY_AGAIN


class Divergence(EsMpiError):
    """Ranks that must hold equal values do not."""

    exit_code = EXIT_DIVERGED


class EngineError(EsMpiError):
    """The inference engine broke a promise: a write that did not arrive, a stale version."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"did you mean 'population'?"` for the nearest of `known`, or the list when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
