"""Sets of real numbers: intervals, unions, inequalities and single points in one form."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from es_mpi.grading.maths.equal import constant
from es_mpi.grading.maths.names import is_name
from es_mpi.grading.maths.node import Node
from es_mpi.grading.maths.values import real

INFINITY = Node("sym", text="inf")
LOWEST = Node("neg", (INFINITY,))
ASCENDING, DESCENDING = {"<", "<="}, {">", ">="}


class Interval(NamedTuple):
    """From `low` to `high`; a bound that is open does not belong to it."""

    low: Node
    low_open: bool
    high: Node
    high_open: bool


def intervals(node: Node) -> list[Interval] | None:
    """The intervals whose union an answer means; None if it means no such set."""
    if node.kind == "tuple" and len(node.args) == 2:
        low, high = node.args
        return [Interval(low, node.text[0] == "(", high, node.text[1] == ")")]
    if node.kind == "set":
        return [Interval(entry, False, entry, False) for entry in node.args]
    if node == Node("sym", text="set R"):
        return [Interval(LOWEST, True, INFINITY, True)]
    if node.kind == "rel":
        return _relation(node)
    if node.kind == "without":
        whole, points = intervals(node.args[0]), node.args[1]
        return None if whole is None or points.kind != "set" else _without(whole, points.args)
    if node.kind == "union" or (node.kind == "list" and all(arg.kind == "rel" for arg in node.args)):
        return _joined(node)
    return None


def _joined(node: Node) -> list[Interval] | None:
    excluded = [arg.args[1] for arg in node.args if arg.kind == "rel" and arg.text == "!=" and is_name(arg.args[0])]
    if 0 < len(excluded) < len(node.args) and node.text != "or":
        kept = tuple(arg for arg in node.args if not (arg.kind == "rel" and arg.text == "!="))
        whole = intervals(kept[0] if len(kept) == 1 else Node(node.kind, kept, node.text))
        return None if whole is None else _without(whole, excluded)
    parts = [intervals(arg) for arg in node.args]
    if any(part is None for part in parts):
        return None
    found = [interval for part in parts if part for interval in part]
    if node.kind == "list" and node.text != "or" and len(found) == 2:
        return _overlap(found) or found
    return found


def _without(whole: list[Interval], points: Iterable[Node]) -> list[Interval] | None:
    """The intervals with points taken out; None where the order of the numbers is not known."""
    for point in points:
        split: list[Interval] = []
        for one in whole:
            place = _place(one, point)
            if place is None:
                return None
            if place == "inside":
                split += [Interval(one.low, one.low_open, point, True), Interval(point, True, one.high, one.high_open)]
            else:
                split.append(one._replace(low_open=one.low_open or place == "low", high_open=one.high_open or place == "high"))
        whole = split
    return whole


def _place(one: Interval, point: Node) -> str | None:
    """Where a point lies: "low", "high", "inside" or "outside"; None where that is not known."""
    at = constant(point)
    low = real(Fraction(-(10**30))) if one.low == LOWEST else constant(one.low)
    high = real(Fraction(10**30)) if one.high == INFINITY else constant(one.high)
    if at is None or low is None or high is None:
        return None
    at, low, high = real(at), real(low), real(high)
    if at in (low, high):
        return "low" if at == low else "high"
    return "inside" if low < at < high else "outside"


def _overlap(found: list[Interval]) -> list[Interval] | None:
    """x > 2 and x < 5: the interval between them, where there is one."""
    below = [one for one in found if one.low == LOWEST]
    above = [one for one in found if one.high == INFINITY]
    if len(below) != 1 or len(above) != 1:
        return None
    low, high = constant(above[0].low), constant(below[0].high)
    if low is None or high is None or not real(low) < real(high):
        return None
    return [Interval(above[0].low, above[0].low_open, below[0].high, below[0].high_open)]


def _relation(node: Node) -> list[Interval] | None:
    relations, operands = node.text.split(), list(node.args)
    if relations == ["in"] and is_name(operands[0]):
        return intervals(operands[1])
    if relations == ["="] and is_name(operands[0]):
        return [Interval(operands[1], False, operands[1], False)]
    if relations == ["!="] and is_name(operands[0]):
        return [Interval(LOWEST, True, operands[1], True), Interval(operands[1], True, INFINITY, True)]
    if set(relations) <= DESCENDING:
        relations, operands = [{">": "<", ">=": "<="}[r] for r in reversed(relations)], operands[::-1]
    if not set(relations) <= ASCENDING:
        return None
    return _chain(relations, operands)


def _chain(relations: list[str], operands: list[Node]) -> list[Interval] | None:
    """low < x < high, x < high or low < x. An infinite bound is open however it is written."""
    opens = [relation == "<" for relation in relations]
    if len(operands) == 3 and is_name(operands[1]):
        return [Interval(operands[0], opens[0], operands[2], opens[1])]
    if len(operands) == 2 and is_name(operands[0]) and operands[0] not in (INFINITY, LOWEST):
        return [Interval(LOWEST, True, operands[1], opens[0])]
    if len(operands) == 2 and is_name(operands[1]):
        return [Interval(operands[0], opens[0], INFINITY, True)]
    return None


def is_set_of_reals(node: Node) -> bool:
    """Is it written as an inequality, a union or an interval that no pair of coordinates could be?"""
    if node.kind == "rel":
        relations = set(node.text.split())
        return bool(relations & (ASCENDING | DESCENDING | {"!="})) or (relations == {"in"} and is_set_of_reals(node.args[1]))
    if node.kind == "tuple":
        return node.text in ("[)", "(]") or any(bound in (INFINITY, LOWEST) for bound in node.args)
    if node.kind in ("union", "without") or node == Node("sym", text="set R"):
        return True
    return node.kind == "list" and any(arg.kind == "rel" and is_set_of_reals(arg) for arg in node.args)
