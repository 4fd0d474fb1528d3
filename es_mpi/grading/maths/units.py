"""Units in words or letters: which are the same, and which are left out."""

from __future__ import annotations

from es_mpi.grading.maths.node import Node

NAMES = {
    "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm", "kilometer": "km", "kilometre": "km",
    "meter": "m", "metre": "m", "kilogram": "kg", "gram": "g", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h",
    "inch": "in", "inche": "in", "foot": "ft", "feet": "ft", "yard": "yd", "mile": "mi", "liter": "l", "litre": "l",
    "pound": "lb",
    "ounce": "oz", "cent": "cent", "dollar": "dollar", "day": "day", "week": "week", "month": "month", "year": "year",
}  # fmt: skip
UNITS = frozenset(NAMES.values()) | {"ml", "mg", "mph"}


def same_unit(gold: Node, answer: Node) -> bool:
    """Do the units agree? One that is left out does, and so do words that are no known unit."""
    mine, other = _unit(gold), _unit(answer)
    return mine == other or not is_unit(mine) or not is_unit(other)


def without_unit(node: Node) -> Node:
    return without_unit(node.args[0]) if node.kind == "unit" else node


def _unit(node: Node) -> str:
    return unit_name(node.text) if node.kind == "unit" else ""


def unit_name(words: str) -> str:
    """One name for a unit in full, in short, and in the plural; other words as they are, in lower case."""
    return "/".join(_simple_name(part) for part in words.lower().replace(" per ", "/").split("/"))


def is_unit(name: str) -> bool:
    return all(part in UNITS for part in name.split("/"))


def _simple_name(word: str) -> str:
    for prefix in ("square ", "cubic "):
        word = word.removeprefix(prefix)
    singular = word.removesuffix("s") if len(word) > 2 else word
    return NAMES.get(singular, NAMES.get(word, singular))
