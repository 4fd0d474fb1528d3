"""The value of an expression: a fraction where the operations allow it, else a number of 60 digits.

Roots and powers are the real ones: the cube root of -8 is -2. Every operation is bounded in size, so that a tower of powers is
refused at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb, factorial, gcd, lcm
from typing import Any

import mpmath

from es_mpi.grading.maths.node import Node

DIGITS = 60
MAX_BITS = 4096  # of a fraction's numerator or denominator after a power
MAX_EXPONENT = 10**5  # of a number of 60 digits: beyond 10^100000
MAX_FACTORIAL = 500

Real = mpmath.MPContext()  # a context of our own: the library's precision is global state
Real.dps = DIGITS
Number = Any  # Fraction, Real.mpf or Real.mpc


class Undefined(Exception):
    """No value: a division by zero, a function outside its domain, a number out of bounds, a name without a value."""


def value(node: Node, env: Mapping[str, Fraction]) -> Number:
    """The value with variables from `env`. Raises Undefined."""
    try:
        found = _value(node, env)
        if not (isinstance(found, Fraction) or Real.isfinite(found)):
            raise Undefined("not finite")
        return found
    except (ZeroDivisionError, ValueError, OverflowError, TypeError, Real.NoConvergence) as error:
        raise Undefined(str(error)) from error


def literal(text: str) -> Fraction:
    """A written number: digits, a decimal, one with an exponent, or a repeating decimal."""
    if "\\" in text:
        return _repeating(text)
    mantissa, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > MAX_BITS // 4:
        raise Undefined("an exponent out of bounds")
    return Fraction(mantissa) * Fraction(10) ** int(exponent or 0)


def _repeating(text: str) -> Fraction:
    head, _, tail = text.partition("\\")
    digits = "".join(c for c in tail if c.isdigit())
    places = len(head.partition(".")[2])
    return Fraction(head + "0" if head != "." else "0") + Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)


def _value(node: Node, env: Mapping[str, Fraction]) -> Number:
    if node.kind == "num":
        return literal(node.text)
    if node.kind == "sym":
        return _symbol(node.text, env)
    args = [_value(arg, env) for arg in node.args]
    operation = _FUNCTIONS.get(node.text, _unknown(node.text)) if node.kind == "call" else _OPERATIONS.get(node.kind)
    if operation is None:
        raise Undefined(f"{node.kind} has no value")
    result = operation(*args)
    if env and isinstance(result, Real.mpc) and not any(isinstance(arg, Real.mpc) for arg in args):
        raise Undefined("variables are real: outside of the domain")
    return result


def _symbol(name: str, env: Mapping[str, Fraction]) -> Number:
    if name in env:
        return env[name]
    constants: Mapping[str, Callable[[], Number]] = {"pi": lambda: +Real.pi, "e": lambda: +Real.e, "i": lambda: Real.mpc(0, 1)}
    if name not in constants:
        raise Undefined(f"{name} has no value")
    return constants[name]()


def real(number: Number) -> Number:
    """A fraction as a number of 60 digits; others as they are."""
    return Real.mpf(number.numerator) / number.denominator if isinstance(number, Fraction) else number


def _divide(a: Number, b: Number) -> Number:
    if b == 0:
        raise Undefined("division by zero")
    return a / b if isinstance(a, Fraction) and isinstance(b, Fraction) else real(a) / real(b)


def _add(a: Number, b: Number) -> Number:
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else real(a) + real(b)


def _multiply(a: Number, b: Number) -> Number:
    return a * b if isinstance(a, Fraction) and isinstance(b, Fraction) else real(a) * real(b)


def power(base: Number, exponent: Number) -> Number:
    """base^exponent: exact where both are fractions and the result is one of bounded size."""
    if base == 0:
        if Real.re(real(exponent)) <= 0 and exponent != 0:
            raise Undefined("zero to a negative power")
        return Fraction(int(exponent == 0))
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent.numerator) <= MAX_BITS:
            return base**exponent.numerator
    negative_root = isinstance(exponent, Fraction) and exponent.denominator % 2 and not isinstance(base, Real.mpc) and base < 0
    if negative_root:
        size = _bounded_power(-real(base), exponent)
        return -size if exponent.numerator % 2 else size
    return _bounded_power(real(base), exponent)


def _bounded_power(base: Number, exponent: Number) -> Number:
    exponent = real(exponent)
    if abs(exponent) * abs(Real.log(abs(base))) > MAX_EXPONENT:
        raise Undefined("a power out of bounds")
    return Real.power(base, exponent)


def _root(args: list[Number]) -> Number:
    index = args[1] if len(args) > 1 else Fraction(2)
    if index == 0:
        raise Undefined("a root of index zero")
    exponent = Fraction(1) / index if isinstance(index, Fraction) else 1 / real(index)
    return power(args[0], exponent)


def _factorial(n: Number) -> Number:
    if isinstance(n, Fraction) and n.denominator == 1 and 0 <= n <= MAX_FACTORIAL:
        return Fraction(factorial(n.numerator))
    raise Undefined("a factorial out of bounds")


def _binomial(n: Number, k: Number) -> Number:
    whole = all(isinstance(x, Fraction) and x.denominator == 1 and 0 <= x <= 2 * MAX_FACTORIAL for x in (n, k))
    if not whole:
        raise Undefined("a binomial out of bounds")
    return Fraction(comb(int(n), int(k)))


def _whole(function: Callable[..., int]) -> Callable[..., Number]:
    def apply(*args: Number) -> Number:
        if not all(isinstance(x, Fraction) and x.denominator == 1 for x in args):
            raise Undefined("needs whole numbers")
        return Fraction(function(*(x.numerator for x in args)))

    return apply


def _rounded(function: Callable[[Number], Number]) -> Callable[..., Number]:
    def apply(x: Number) -> Number:
        if isinstance(x, Fraction):
            return Fraction(x.numerator // x.denominator if function == Real.floor else -(-x.numerator // x.denominator))
        return Fraction(int(function(x)))

    return apply


def _of_reals(function: Callable[[Number], Number]) -> Callable[..., Number]:
    def apply(x: Number) -> Number:
        x = real(x)
        if not isinstance(x, Real.mpc) and abs(x) > MAX_EXPONENT:
            raise Undefined("an argument out of bounds")
        return function(x)

    return apply


def _log(x: Number, base: Number | None = None) -> Number:
    if x == 0:
        raise Undefined("the logarithm of zero")
    return Real.log(real(x)) if base is None else _divide(Real.log(real(x)), Real.log(real(base)))


def _unknown(name: str) -> Callable[..., Number]:
    """A function that is only a name: any fixed function that two different arguments do not share will do."""
    seed = 1 + zlib.crc32(name.encode()) % 1000

    def apply(*args: Number) -> Number:
        total = Real.mpf(0)
        for place, x in enumerate(args):
            total += Real.sin(_of_reals(lambda y: y)(x) * (seed + place) / 977)
        return total + seed

    return apply


_OPERATIONS: Mapping[str, Callable[..., Number]] = {
    "add": _add, "mul": _multiply, "div": _divide, "pow": power, "ratio": _divide,
    "neg": lambda a: -a,
    "percent": lambda a: _divide(a, Fraction(100)),
    "deg": lambda a: _multiply(a, Real.pi / 180),
    "unit": lambda a: a,
}  # fmt: skip

_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    **{name: _of_reals(getattr(Real, name)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")},
    **{name: _of_reals(getattr(Real, name)) for name in ("cot", "sec", "csc")},
    "arcsin": _of_reals(Real.asin), "arccos": _of_reals(Real.acos), "arctan": _of_reals(Real.atan),
    "arccot": _of_reals(Real.acot), "arcsec": _of_reals(Real.asec), "arccsc": _of_reals(Real.acsc),
    "arcsinh": _of_reals(Real.asinh), "arccosh": _of_reals(Real.acosh), "arctanh": _of_reals(Real.atanh),
    "ln": _log, "log": _log, "lg": lambda x: _log(x, Fraction(10)),
    "sqrt": lambda *args: _root(list(args)),
    "abs": abs, "factorial": _factorial, "binom": _binomial,
    "floor": _rounded(Real.floor), "ceil": _rounded(Real.ceil),
    "gcd": _whole(gcd), "lcm": _whole(lcm),
    "min": lambda *args: min(args, key=real), "max": lambda *args: max(args, key=real),
}  # fmt: skip
