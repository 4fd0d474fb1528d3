"""Things a config chooses by name: one of ours, or a user's own as `module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from es_mpi.errors import UsageError, did_you_mean

T = TypeVar("T", bound=Callable[..., Any])


def find(name: str, known: Mapping[str, T], *, key: str) -> T:
    """`known[name]`, or what the reference `module:function` points at.

    Raises UsageError (config key `key`) for an unknown name, a module that cannot be imported, and a name in it
    that is missing or cannot be called.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon:
        if name in known:
            return known[name]
        expected = "one of ours, or your own as module:function"
        raise UsageError("no such name", value=name, expected=expected, key=key, remedy=did_you_mean(name, known))
    found = getattr(_module(module_name, key), attribute, None)
    if not callable(found):
        raise UsageError(
            f"module {module_name!r} has no function of that name", value=attribute, expected="module:function", key=key
        )
    return found  # type: ignore[no-any-return]  # a user's own: its type shows at its first call


def _module(name: str, key: str) -> Any:
    """Import a user's module. The working folder counts: a console script, unlike `python -m`, leaves it out."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a name that is none, a module that is missing, or whatever its code raises
        raise UsageError(
            f"cannot import module {name!r} ({type(error).__name__}: {error})",
            expected="module:function",
            key=key,
            remedy=f"start in the folder of {name}.py, or put that folder in PYTHONPATH",
        ) from error
