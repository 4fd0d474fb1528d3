"""Plain values to schema classes: every wrong key, type and range found in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin

from es_mpi.config.keys import FieldInfo, Key, fields_of
from es_mpi.config.schema import PHASE_KINDS
from es_mpi.config.values import convert, convertible, type_text
from es_mpi.errors import UsageError, did_you_mean


def build(schema: type, raw: object, path: str, problems: list[UsageError]) -> Any:
    """An object of `schema` from a plain mapping, or None with the reasons appended to `problems`.

    `path` is the dot path of the mapping ("" for the whole config); a missing mapping (None) is an empty one.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        problems.append(UsageError("is a section", value=raw, expected="keys with values below it", key=path))
        return None
    fields = fields_of(schema)
    known = len(problems)
    for word in raw:
        if word not in fields:
            problems.append(UsageError("unknown key", key=_join(path, word), remedy=did_you_mean(str(word), fields)))
    values = {name: _field(info, raw, _join(path, name), problems) for name, info in fields.items()}
    return schema(**values) if len(problems) == known else None


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _field(info: FieldInfo, raw: Mapping[Any, object], path: str, problems: list[UsageError]) -> Any:
    if isinstance(info.type, type) and is_dataclass(info.type):
        return build(info.type, raw.get(info.name), path, problems)
    assert info.key is not None, f"{path} has no Key"
    if _is_named_sections(info.type):
        return _phases(raw.get(info.name), path, info.key, problems)
    if info.name not in raw:
        if info.required:
            problems.append(UsageError("is missing", key=path, expected=f"{type_text(info.type)} ({info.key.doc})"))
        return info.default
    return _value(info, raw[info.name], path, problems)


def _value(info: FieldInfo, value: object, path: str, problems: list[UsageError]) -> Any:
    assert info.key is not None
    try:
        converted = convert(info.type, value)
    except ValueError as error:
        found = "nothing" if value is None else value
        remedy = _remedy(info.type, value)
        problems.append(UsageError("wrong value", value=found, expected=str(error), key=path, remedy=remedy))
        return None
    for item in converted if isinstance(converted, tuple) else (converted,):
        if not info.key.admits(item):
            problems.append(UsageError("out of range", value=item, expected=info.key.range_text(), key=path))
    return converted


def _remedy(kind: Any, value: object) -> str:
    if get_origin(kind) is Literal and isinstance(value, str):
        return did_you_mean(value, get_args(kind))
    quotable = isinstance(value, int | float) and convertible(kind, str(value))
    return f'quote it: "{value}"' if quotable else ""


def _is_named_sections(kind: Any) -> bool:
    return get_origin(kind) is Mapping and is_dataclass(get_args(kind)[1])


def _phases(raw: object, path: str, key: Key, problems: list[UsageError]) -> dict[str, Any] | None:
    """`phases`: a mapping of free names to sections whose class follows from their `kind`."""
    if not isinstance(raw, Mapping) or not raw:
        problems.append(
            UsageError("needs at least one phase", value=raw, key=path, remedy="phases: {main: {kind: es, updates: 10}}")
        )
        return None
    return {str(name): _phase(str(name), section, raw, path, key, problems) for name, section in raw.items()}


def _phase(name: str, section: object, phases: Mapping[Any, object], path: str, key: Key, problems: list[UsageError]) -> Any:
    here = _join(path, name)
    if not key.admits(name):
        problems.append(UsageError("cannot be a phase name", value=name, expected=key.range_text(), key=here))
    if not isinstance(section, Mapping | None):
        return build(PHASE_KINDS["es"], section, here, problems)
    kind = str((section or {}).get("kind", ""))
    if kind and kind not in PHASE_KINDS:
        problems.append(
            UsageError("no such kind in this version", value=kind, expected=" or ".join(PHASE_KINDS), key=f"{here}.kind")
        )
        return None
    phase = build(PHASE_KINDS[kind or "es"], {"kind": "es", **(section or {})}, here, problems)
    if not kind:
        others = [str(other) for other in phases if other != name]
        remedy = f"{did_you_mean(name, others)}, or give this phase a kind" if others else "kind: es"
        problems.append(UsageError("has no kind", key=here, expected=" or ".join(PHASE_KINDS), remedy=remedy))
    return phase
