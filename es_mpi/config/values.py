"""Plain YAML values to the types that the schema uses, and those types in words."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def convert(kind: Any, value: object) -> Any:
    """`value` as the schema type `kind`; ValueError with what was expected.

    A number may be text ("1e-3" is text to YAML 1.1); a bool is never a number, and a float never a whole number.
    """
    origin = get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        inner = next(arg for arg in get_args(kind) if arg is not type(None))
        return None if value is None else convert(inner, value)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(convert(get_args(kind)[0], item) for item in value)
    if origin is Literal and isinstance(value, str) and value in get_args(kind):
        return value
    if origin is Literal and value is False and "off" in get_args(kind):
        return "off"  # YAML 1.1 reads a bare off as false
    if origin is Mapping and isinstance(value, Mapping):
        return _plain(value)
    if kind is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        return _number(value)
    if kind in WORDS and type(value) is kind:
        return value
    raise ValueError(type_text(kind))


def convertible(kind: Any, value: object) -> bool:
    try:
        convert(kind, value)
    except ValueError:
        return False
    return True


def _number(value: float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError(type_text(float)) from None


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError("text, finite numbers, lists and mappings")


def type_text(kind: Any) -> str:
    """A schema type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return f"{type_text(next(arg for arg in arguments if arg is not type(None)))}, or null"
    if origin is Literal:
        return " or ".join(str(choice) for choice in arguments)
    if origin is tuple:
        return f"a list of {WORDS[arguments[0]].removeprefix('a ').replace('number', 'numbers')}, like [a, b]"
    return WORDS.get(kind, "keys with values")
