"""One text for all answers that mean the same, so that they vote together: 1/2 for .5, \\frac12 and 0.50."""

from __future__ import annotations

from fractions import Fraction

from es_mpi.grading.maths.equal import constant, points
from es_mpi.grading.maths.intervals import Interval, intervals, is_set_of_reals
from es_mpi.grading.maths.names import label, plain
from es_mpi.grading.maths.node import Node
from es_mpi.grading.maths.same import spread
from es_mpi.grading.maths.units import without_unit
from es_mpi.grading.maths.values import DIGITS, Number, Real, Undefined, real, value
from es_mpi.grading.maths.words import key

SHOWN_DIGITS = 15


def normal(node: Node) -> str:
    """The normal form. An expression with variables is named by two of its values, since its text is not unique."""
    node = spread(plain(label(plain(node))[1]))
    if is_set_of_reals(node) and (found := intervals(node)):
        return " or ".join(sorted(_interval(one) for one in found))
    if node.kind == "text":
        return ", ".join(key(node.text))
    if node.kind in ("list", "set"):
        entries = [normal(entry) for entry in node.args]
        return "empty set" if not entries else ", ".join(sorted(set(entries) if node.kind == "set" else entries))
    if node.kind == "tuple":
        return f"{node.text[0]}{', '.join(map(normal, node.args))}{node.text[1]}"
    if node.kind == "matrix":
        single = len(node.args) == 1 or len(node.args[0].args) == 1
        return f"({(', ' if single else '; ').join(', '.join(map(normal, row.args)) for row in node.args)})"
    if node.kind == "rel":
        first, *rest = map(normal, node.args)
        return " ".join([first, *(f"{r} {text}" for r, text in zip(node.text.split(), rest, strict=True))])
    return _quantity(without_unit(node))


def _interval(one: Interval) -> str:
    return f"{'[('[one.low_open]}{normal(one.low)}, {normal(one.high)}{'])'[one.high_open]}"


def _quantity(node: Node) -> str:
    names = sorted(node.symbols())
    if not names:
        number = constant(node)
        return written(node) if number is None else shown(number)
    values = []
    for env in points(frozenset(names)):
        try:
            values.append(shown(value(node, env), SHOWN_DIGITS - 3, exact=False))
        except Undefined:
            continue
        if len(values) == 2:
            return f"expression in {', '.join(names)} with values {values[0]} and {values[1]}"
    return written(node)


def shown(number: Number, digits: int = SHOWN_DIGITS, *, exact: bool = True) -> str:
    """A fraction as it is, another number to so many digits, in an order that two equal ones share."""
    if exact and isinstance(number, Fraction) and max(number.numerator, number.denominator) < 10**DIGITS:
        return str(number)
    number = real(number)
    if isinstance(number, Real.mpc):
        return f"{Real.nstr(number.real, digits)}{'-' if number.imag < 0 else '+'}{Real.nstr(abs(number.imag), digits)}i"
    return str(Real.nstr(number, digits))


def written(node: Node) -> str:
    """The tree as text, for what has no value."""
    return f"{node.text or node.kind}({', '.join(map(written, node.args))})" if node.args else node.text or node.kind
