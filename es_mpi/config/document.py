"""The schema as Markdown tables, for docs/configuration.md: `python -m es_mpi.config.document` prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

from es_mpi.config.keys import FieldInfo, walk
from es_mpi.config.schema import PHASE_KINDS, Config
from es_mpi.config.values import type_text

HEADER = "| key | type | default | unit | changes results | meaning |\n|---|---|---|---|---|---|"


def keys() -> Iterator[tuple[str, FieldInfo]]:
    """Every key with its dot path; those of `phases` once for each kind that has them, with `<name>` for the phase's name."""
    for path, info in walk(Config):
        if path == "phases":
            for kind in PHASE_KINDS.values():
                yield from walk(kind, "phases.<name>.")
        else:
            yield path, info


def row(path: str, info: FieldInfo) -> str:
    """One key as a line of a table."""
    assert info.key is not None
    default = "required" if info.required else f"`{_value(info.default)}`"
    kind = (
        " \\| ".join(f"`{choice}`" for choice in get_args(info.type))
        if get_origin(info.type) is Literal
        else type_text(info.type)
    )
    limits = f" ({info.key.range_text()})" if info.key.limited else ""
    effect = "yes" if info.key.changes_results else "no"
    return f"| `{path}` | {kind}{limits} | {default} | {info.key.unit} | {effect} | {info.key.doc} |"


def tables() -> dict[str, str]:
    """A table for each top-level key, by name; for `phases` one for each set of kinds that share keys."""
    sections: dict[str, list[str]] = {}
    for path, info in walk(Config):
        if path == "phases":
            for kinds, rows in _phase_rows().items():
                of = "every kind" if len(kinds) == len(PHASE_KINDS) else f"kind {', '.join(kinds)}"
                sections[f"phases of {of}"] = rows
        else:
            sections.setdefault(path.partition(".")[0], []).append(row(path, info))
    return {name: "\n".join([HEADER, *rows]) for name, rows in sections.items()}


def _phase_rows() -> dict[tuple[str, ...], list[str]]:
    """Rows of `phases` by the kinds that have them just so."""
    kinds: dict[str, list[str]] = {}
    for kind, schema in PHASE_KINDS.items():
        for path, info in walk(schema, "phases.<name>."):
            of_all = replace(info, type=Literal[tuple(PHASE_KINDS)]) if path.endswith(".kind") else info
            kinds.setdefault(row(path, of_all), []).append(kind)
    blocks: dict[tuple[str, ...], list[str]] = {}
    for text, sharing in kinds.items():
        blocks.setdefault(tuple(sharing), []).append(text)
    return blocks


def _value(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default)


if __name__ == "__main__":
    for name, text in tables().items():
        print(f"## {name}\n\n{text}\n")
