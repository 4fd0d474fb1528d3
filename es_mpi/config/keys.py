"""How the schema describes one config key, and how to walk over all of them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Key:
    """What the schema says of one key beside its type and default.

    `changes_results` False marks a key that can change speed, place or display but no trained weight and no measured score: it
    may differ when a run is resumed. Bounds hold for a number and for each number of a list; `pattern` for text.
    """

    doc: str
    unit: str = ""
    _: KW_ONLY
    changes_results: bool = True
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    pattern: str = ""

    def admits(self, value: object) -> bool:
        if isinstance(value, str):
            return not self.pattern or re.fullmatch(self.pattern, value) is not None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        low = self.at_least is None or value >= self.at_least
        return math.isfinite(value) and low and (self.above is None or value > self.above) and self._under(value)

    def _under(self, value: float) -> bool:
        return self.at_most is None or value <= self.at_most

    @property
    def limited(self) -> bool:
        """Whether a number is bounded by more than being finite."""
        return (self.at_least, self.above, self.at_most) != (None, None, None)

    def range_text(self) -> str:
        """The admitted range in words, e.g. `above 0, at most 1`."""
        bounds = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most))
        parts = [f"{word} {bound}" for word, bound in bounds if bound is not None]
        return ", ".join(parts) or (f"text that matches {self.pattern}" if self.pattern else "a finite number")


def neutral(doc: str, unit: str = "", **bounds: Any) -> Key:
    """A key that changes speed, place or display only."""
    return Key(doc, unit, changes_results=False, **bounds)


@dataclass(frozen=True)
class FieldInfo:
    """One field of a schema class: its name, bare type, Key (None for a section) and default."""

    name: str
    type: Any
    key: Key | None
    required: bool
    default: Any


def fields_of(schema: type) -> dict[str, FieldInfo]:
    """The fields of a schema class by name, in order."""
    hints = get_type_hints(schema, include_extras=True)
    return {field.name: _info(field, hints[field.name]) for field in dataclasses.fields(schema)}


def _info(field: dataclasses.Field[Any], hint: Any) -> FieldInfo:
    annotated = get_origin(hint) is Annotated
    key = next((extra for extra in hint.__metadata__ if isinstance(extra, Key)), None) if annotated else None
    default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    required = default is dataclasses.MISSING
    return FieldInfo(field.name, get_args(hint)[0] if annotated else hint, key, required, None if required else default)


def walk(schema: type, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of a schema class with its dot path, sections opened, in order."""
    for name, info in fields_of(schema).items():
        if isinstance(info.type, type) and dataclasses.is_dataclass(info.type):
            yield from walk(info.type, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info
