"""Equations as curves: the same up to a constant factor, and what solves one for a variable."""

from __future__ import annotations

from fractions import Fraction

from es_mpi.grading.maths.equal import ENOUGH, TOLERANCE, points
from es_mpi.grading.maths.node import Node
from es_mpi.grading.maths.values import Number, Undefined, real, value


def same_equation(gold: Node, answer: Node) -> bool:
    """Are left minus right sides proportional? So x - y = 2 is 2y = 2x - 4, but x = 1 is not x = 2."""
    if gold.text != "=" or answer.text != "=" or not gold.symbols() or gold.symbols() != answer.symbols():
        return False
    first: tuple[Number, Number] | None = None
    agreed = 0
    for env in points(gold.symbols()):
        try:
            pair = (real(value(_difference(gold), env)), real(value(_difference(answer), env)))
        except Undefined:
            continue
        if first is None:
            first = pair
            if 0 in first:
                return False
            continue
        left, right = first[0] * pair[1], first[1] * pair[0]
        if abs(left - right) > TOLERANCE * max(abs(left), abs(right)):
            return False
        agreed += 1
    return agreed >= ENOUGH


def is_solution(gold: Node, answer: Node) -> bool:
    """Is `answer` what the equation `gold` gives for its one remaining variable, in which it is linear? xy = 6 is 6/x."""
    missing = gold.symbols() - answer.symbols()
    if gold.text != "=" or len(missing) != 1 or not answer.symbols() <= gold.symbols():
        return False
    name = next(iter(missing))
    agreed = 0
    for env in points(gold.symbols()):
        try:
            at = [real(value(_difference(gold), env | {name: Fraction(x)})) for x in (2, 3, 4)]
            found = real(value(_difference(gold), env | {name: value(answer, env)}))
        except Undefined:
            continue
        size = max(map(abs, at))
        if abs(at[0] - 2 * at[1] + at[2]) > TOLERANCE * size or at[0] == at[1] or abs(found) > TOLERANCE * size:
            return False
        agreed += 1
    return agreed >= ENOUGH


def _difference(equation: Node) -> Node:
    left, right = equation.args
    return Node("add", (left, Node("neg", (right,))))
