"""Are two expressions equal? Exactly where they are rational, else to 40 digits at fixed points of their variables.

A difference that 60 digits cannot tell from zero is taken for zero; for answers that people and models write this is decided.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from fractions import Fraction

from es_mpi.grading.maths.node import Node
from es_mpi.grading.maths.values import DIGITS, Number, Real, Undefined, real, value

TOLERANCE = Real.mpf(10) ** -40
NOISE = Real.mpf(10) ** -(DIGITS - 10)  # what cancels to less than this is zero
ENOUGH = 3  # points at which both are real and equal
RANGES = ((0, 1),) * 6 + ((1, 5),) * 3 + ((-3, 0),) * 4
WHOLE_POINTS = 16


def equal(a: Node, b: Node) -> bool:
    """Same value for all values of the variables, as far as fixed points show. Undefined on both sides is not equal."""
    names = a.symbols() | b.symbols()
    if not names:
        return _equal_constants(a, b)
    if a.symbols() != b.symbols() and {n.lower() for n in a.symbols()} == {n.lower() for n in b.symbols()}:
        return equal(_lower(a), _lower(b))
    agreed = 0
    complex_agreed = 0
    for env in points(names, whole=_needs_whole(a) or _needs_whole(b)):
        try:
            x, y = _pair(a, b, env)
        except Undefined:
            continue
        if isinstance(x, Real.mpc) != isinstance(y, Real.mpc):
            continue  # outside the real domain of one of them
        if not _close(x, y):
            if not isinstance(x, Real.mpc):
                return False
            complex_agreed -= 100
        elif isinstance(x, Real.mpc):
            complex_agreed += 1
        else:
            agreed += 1
    return agreed >= ENOUGH or (not agreed and complex_agreed >= ENOUGH)


def _equal_constants(a: Node, b: Node) -> bool:
    try:
        return _close(*_pair(a, b, {}))
    except Undefined:
        return False


def points(names: frozenset[str], *, whole: bool = False) -> Iterator[dict[str, Fraction]]:
    """Fixed rational values for the variables: a function of their names."""
    for place in range(WHOLE_POINTS) if whole else range(len(RANGES)):
        env = {}
        for name in names:
            seed = zlib.crc32(f"{name} {place}".encode())
            if whole:
                env[name] = Fraction(1 + seed % 9)
            else:
                low, high = RANGES[(place + seed // 1009 % 3) % len(RANGES)] if len(names) > 1 else RANGES[place]
                env[name] = low + (high - low) * Fraction(1 + seed % 995, 997)
        yield env


def constant(node: Node) -> Number | None:
    """The value of an expression without variables; None if it has variables or no value."""
    if node.symbols():
        return None
    try:
        return _clean(value(node, {}))
    except Undefined:
        return None


def _pair(a: Node, b: Node, env: dict[str, Fraction]) -> tuple[Number, Number]:
    return _clean(value(a, env)), _clean(value(b, env))


def _clean(x: Number) -> Number:
    """A complex number whose imaginary part is rounding noise as the real one it is."""
    if isinstance(x, Real.mpc) and abs(x.imag) <= NOISE * max(1, abs(x.real)):
        return x.real
    return x


def _close(x: Number, y: Number) -> bool:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x == y
    x, y = real(x), real(y)
    return bool(abs(x - y) <= TOLERANCE * max(abs(x), abs(y)) or (max(abs(x), abs(y)) < NOISE and (x == 0) != (y == 0)))


def _needs_whole(node: Node) -> bool:
    """Does it hold what is meant for whole numbers only: a factorial, a binomial, a negative number to a variable power?"""
    return any(
        (part.kind == "call" and part.text in ("factorial", "binom", "gcd", "lcm") and part.symbols())
        or (part.kind == "pow" and part.args[0].kind == "neg" and not part.args[0].symbols() and part.args[1].symbols())
        for part in node.walk()
    )


def _lower(node: Node) -> Node:
    """Variables in lower case: C and c are the same constant where only one of them occurs."""
    return Node(node.kind, tuple(_lower(arg) for arg in node.args), node.text.lower() if node.kind == "sym" else node.text)
