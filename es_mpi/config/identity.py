"""Which configs give the same results: the part that counts, its fingerprint, and how two differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from es_mpi.config.keys import fields_of
from es_mpi.config.schema import Config


def relevant(config: Config) -> dict[str, str]:
    """Dot path to value (as JSON) of every key that can change results."""
    return {path: value for path, (value, changes_results) in _keys(config, "").items() if changes_results}


def flat(config: Config) -> dict[str, str]:
    """Dot path to value (as JSON) of every key."""
    return {path: value for path, (value, _) in _keys(config, "").items()}


def fingerprint(config: Config) -> str:
    """32 hex digits over `relevant(config)`: equal for equal results, whatever the folder, display and speed keys."""
    return hashlib.blake2b(json.dumps(relevant(config)).encode(), digest_size=16).hexdigest()


def diff_relevant(old: Config, new: Config) -> list[str]:
    """Dot paths of the result-relevant keys in which two configs differ."""
    before, after = relevant(old), relevant(new)
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _keys(section: Any, prefix: str) -> dict[str, tuple[str, bool]]:
    """Dot path to (value as JSON, whether it can change results), by path."""
    found: dict[str, tuple[str, bool]] = {}
    for name, info in fields_of(type(section)).items():
        value = getattr(section, name)
        if is_dataclass(value):
            found |= _keys(value, f"{prefix}{name}.")
        elif isinstance(value, Mapping) and any(is_dataclass(item) for item in value.values()):
            for item_name, item in value.items():
                found |= _keys(item, f"{prefix}{name}.{item_name}.")
        elif info.key is not None:
            found[f"{prefix}{name}"] = json.dumps(value, sort_keys=True), info.key.changes_results
    return dict(sorted(found.items()))
