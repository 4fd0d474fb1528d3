"""Single quantities: percent signs, degrees, units, number bases, ratios and rounded decimals."""

from __future__ import annotations

from fractions import Fraction

from es_mpi.grading.maths.equal import constant, equal
from es_mpi.grading.maths.node import Node
from es_mpi.grading.maths.values import DIGITS, Number, Real, literal

GOLD_DIGITS = 3  # significant digits from which a gold decimal may be a rounded value
ANSWER_DIGITS = 6  # the same of an answer to an exact gold


def same_quantity(gold: Node, answer: Node) -> bool:
    """Equal values. 28 % is 28 or 0.28; 90 degrees are 90 or pi/2; a decimal may be rounded."""
    for kind in ("percent", "deg", "based"):
        if (gold.kind == kind) != (answer.kind == kind):
            bare = gold.args[0] if gold.kind == kind else gold
            given = answer.args[0] if answer.kind == kind else answer
            if same_quantity(bare, given):
                return True
    if gold.kind == answer.kind == "based":
        return gold.text == answer.text and equal(gold.args[0], answer.args[0])
    if gold.kind == answer.kind == "ratio" and len(gold.args) == len(answer.args) > 2:
        return _proportional(gold, answer)
    try:
        if equal(gold, answer):
            return True
    except ArithmeticError:
        return False
    return _rounded(gold, answer)


def _proportional(gold: Node, answer: Node) -> bool:
    first, other = gold.args[0], answer.args[0]
    return all(
        equal(Node("mul", (g, other)), Node("mul", (a, first))) for g, a in zip(gold.args[1:], answer.args[1:], strict=True)
    )


def _rounded(gold: Node, answer: Node) -> bool:
    """Is one a decimal of enough digits and the other, exact, rounds to it?"""
    for decimal, exact, digits in ((gold, answer, GOLD_DIGITS), (answer, gold, ANSWER_DIGITS)):
        written, number = _decimal(decimal), constant(exact)
        if written is None or number is None or written[2] < digits or _has_decimals(exact):
            continue
        cut = digits + 2 <= written[2]  # so many digits that they may be cut off instead of rounded
        if not isinstance(number, Real.mpc) and _rounds(number, written[0], written[1], cut):
            return True
    return False


def _rounds(number: Number, given: Fraction, step: Fraction, cut: bool) -> bool:
    """Is `given` the nearest multiple of `step`, a half rounded up, or the one nearer to zero if digits may be cut off?"""
    exact = number if isinstance(number, Fraction) else Fraction(Real.nstr(number, DIGITS))
    below = abs(exact) - abs(given)
    return exact * given >= 0 and (-step / 2 <= below < step / 2 or (cut and 0 <= below < step))


def _has_decimals(node: Node) -> bool:
    return any(part.kind == "num" and "." in part.text for part in node.walk())


def _decimal(node: Node) -> tuple[Fraction, Fraction, int] | None:
    """Value, unit of the last place and significant digits of a written decimal, also times a power of ten."""
    if node.kind == "neg" and (inner := _decimal(node.args[0])):
        return -inner[0], inner[1], inner[2]
    if node.kind == "percent" and (inner := _decimal(node.args[0])):
        return inner[0] / 100, inner[1] / 100, inner[2]
    if node.kind == "mul" and node.args[1].kind == "pow" and node.args[1].args[0] == Node("num", text="10"):
        inner, scale = _decimal(node.args[0]), constant(node.args[1])
        return (inner[0] * scale, inner[1] * scale, inner[2]) if inner and isinstance(scale, Fraction) else None
    if node.kind != "num" or "." not in node.text or "\\" in node.text:
        return None
    mantissa, _, exponent = node.text.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    unit = Fraction(10) ** (int(exponent or 0) - places) if abs(int(exponent or 0)) < 1000 else Fraction(1)
    return literal(node.text), unit, len(mantissa.replace(".", "").lstrip("0"))
