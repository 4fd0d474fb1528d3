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
    return mine == other or mine not in UNITS or other not in UNITS


def without_unit(node: Node) -> Node:
    return without_unit(node.args[0]) if node.kind == "unit" else node


def _unit(node: Node) -> str:
    if node.kind != "unit":
        return ""
    return unit_name(node.text)


def unit_name(words: str) -> str:
    """One name for a unit in full, in short, and in the plural; other words as they are, in lower case."""
    word = words.lower()
    for prefix in ("square ", "cubic "):
        word = word.removeprefix(prefix)
    singular = word.removesuffix("s") if len(word) > 2 else word
    return NAMES.get(singular, NAMES.get(word, singular))
