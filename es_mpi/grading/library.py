"""The math-verify library for what our own grammar has not: integrals, sums, products, limits and case distinctions.

It is asked about such formulas only, so its faults with plain numbers and boxes cannot reach a verdict, and it runs in a process
with limits, since parts of it have none.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

LONGEST = 1500  # characters
DIGITS, DECIMALS = 30, 15  # of its numerical comparison; by default 15 and 6
BEYOND = re.compile(r"\\(?:i*int|sum|prod|lim|partial|begin\s*\{cases\}|oint)(?![A-Za-z])")


def load_library() -> None:
    """Imports it, which takes seconds, and lets it build its tables."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its time limit is off; ours is on
    says_same(r"\int_0^1 x\,dx", r"\frac{1}{2}")


def says_same(gold: str, answer: str) -> bool:
    """Does the library take two formulas, one of them beyond our grammar, for the same? False where it cannot read one."""
    if not (BEYOND.search(gold) or BEYOND.search(answer)) or max(len(gold), len(answer)) > LONGEST:
        return False
    from math_verify import verify

    mine, other = _formula(gold), _formula(answer)
    if not mine or not other:
        return False
    try:
        # timeout_seconds=None: its own limit is an alarm of wall time
        return bool(
            verify(list(mine), list(other), numeric_precision=DIGITS, float_rounding=DECIMALS, strict=True, timeout_seconds=None)
        )
    except Exception:  # it raises whatever sympy raises
        return False


@lru_cache(maxsize=512)
def _formula(text: str) -> tuple[Any, ...]:
    from math_verify import LatexExtractionConfig, parse

    try:
        return tuple(parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None))
    except Exception:  # likewise
        return ()
