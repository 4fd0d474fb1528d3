r"""The normal form of a short LaTeX answer, by rewriting its text; nothing is evaluated.

The conventions are those of the MATH data set's string comparison, which the ES paper trains with: spacing and sizing
commands, degrees, percent and units go; fractions and roots get their braces; `0.5` and `1/2` become `\frac{1}{2}`.
`18.0`, `1,024` and `$18` stay as they are, and so differ from 18 and 1024.
"""

from __future__ import annotations

import re

_UNIT = re.compile(r"\\text\{ [^{}]*\}(?:\^\{?[0-9]\}?)?$")

# In this order. No pattern holds two neighbouring repeats that could share characters: each is linear in the text.
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\s", ""),
        (r"\\[!$%]", ""),
        (r"\\(?:left|right)(?![A-Za-z])", ""),
        (r"\^(?:\\circ|\{\\circ\})", ""),
        (r"\\[dt]frac", r"\\frac"),
        (r"^[^=]{0,2}=(?=[^=]+$)", ""),  # a short left side: x=18 is 18
        (r"(?<![^{(,-])\.(?=[0-9])", "0."),
        (r"\\sqrt([0-9A-Za-z])", r"\\sqrt{\1}"),
        (r"\\frac([0-9A-Za-z])([0-9A-Za-z])", r"\\frac{\1}{\2}"),
        (r"\\frac([0-9A-Za-z])\{", r"\\frac{\1}{"),
        (r"^0\.5$", r"\\frac{1}{2}"),
        (r"^(-?[0-9]+)/(-?[0-9]+)$", r"\\frac{\1}{\2}"),
    ]
)


def normalise(answer: str) -> str:
    r"""Normal form of a LaTeX answer: `\frac12`, `1/2` and `.5` give the same text. Linear in its length."""
    text = answer.strip().replace("\\\\", "\\")
    text = _UNIT.sub("", text) or text  # "\text{ even}" is the answer itself, not its unit
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text
