r"""Where in a response its final answer stands: the last closed \boxed{} or answer marker.

Everything here is one scan of the text or a bounded number of them, so it is linear in a hostile response.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from es_mpi.grading.boxed import BOX, last_box
from es_mpi.grading.response import answer_part

SHORT = 200  # characters of a one-line response that may be the answer as a whole
MAX_BOXES = 20
_MARKER = re.compile(r"####|^[ \t*]*A(?:nswer)?[ \t]*:|\banswer\**[ \t]*(?:is|:|=)", re.IGNORECASE | re.MULTILINE)
_SENTENCE = re.compile(r"\n|\.(?=\s|$)|<\|")
_JOIN = re.compile(r"^[^\n.:!?]{0,40}(?:,|;|\band|\bor)[\s$}\\]*(?:quad|qquad)?[\s$]*$|^[\s$,;\\]*$")
_NUMBER = re.compile(r"[-\u2212]?[ \t]?\\?\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+|/[0-9]+)?|[-\u2212]?\.[0-9]+")
_FORMULAS = (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


class Found(NamedTuple):
    """Readings of the final answer, the first that can be read counts; `open_end`: more of it may have been cut off."""

    readings: tuple[str, ...]
    open_end: bool


def final_answer(response: str) -> Found | None:
    """The final answer, or None where there is none or the last box is never closed.

    Of boxes and markers (`####`, `A:`, `answer is`) the last one counts, a marker only if a formula or number follows it.
    Boxes joined by commas, `and` or `or` are one answer. Without either: a short response as a whole, else its last
    formula or number.
    """
    text = answer_part(response)
    place = text.rfind(BOX)
    marked = _marked(text, max(place, 0), words=place < 0)
    if place >= 0:
        if last_box(text) is None:
            return None
        return marked or Found((_boxes(text, place),), False)
    return marked or _unmarked(text)


def reference(answer: str) -> str:
    r"""A reference answer without the box or sentence around it."""
    place = answer.rfind(BOX)
    return _boxes(answer, place) if place >= 0 and last_box(answer) is not None else answer


def _boxes(text: str, place: int) -> str:
    """The last box, with those in front of it that commas, `and` or `or` join to it."""
    found = [last_box(text) or ""]
    for _ in range(MAX_BOXES):
        before = text.rfind(BOX, 0, place)
        content = last_box(text[before:place]) if before >= 0 else None
        if content is None or not _JOIN.match(text[before + len(BOX) : place].partition(content + "}")[2]):
            break
        found.append(content)
        place = before
    return ", ".join(reversed(found))


def _marked(text: str, start: int, *, words: bool) -> Found | None:
    """What the last marker from `start` on announces; words alone only where they may be the answer."""
    for marker in deque(_MARKER.finditer(text, start), maxlen=1):
        rest = text[marker.end() :]
        end = _SENTENCE.search(rest)
        said = rest[: end.start() if end else len(rest)].strip(" \t*:")
        if any(c.isdigit() or c in "$\\" for c in said) or (said and words):
            first_number = marker[0] == "####" or marker[0].rstrip().endswith(("A:", "a:"))
            return Found((said, *_parts(said, first_number)), end is None)
    return None


def _unmarked(text: str) -> Found | None:
    text = text.strip()
    whole = (text,) if 0 < len(text) <= SHORT and "\n" not in text else ()
    parts = _parts(text, first=False)
    return Found((*whole, *parts), bool(whole) or text.endswith(parts)) if whole or parts else None


def _parts(text: str, first: bool) -> tuple[str, ...]:
    """The first number of `text`, or its last formula or number."""
    if first:
        number = _NUMBER.search(text)
        return (number[0],) if number else ()
    formula = max((_last_formula(text, *marks) for marks in _FORMULAS), key=lambda found: found[0])
    numbers = deque(_NUMBER.finditer(text), maxlen=1)
    if numbers and numbers[0].end() > formula[0]:
        return (numbers[0][0],)
    return (formula[1],) if formula[1] else ()


def _last_formula(text: str, opening: str, closing: str) -> tuple[int, str]:
    """Where the last formula between two marks ends, and its content; (-1, "") where there is none."""
    end = text.rfind(closing)
    if closing == "$":
        while end > 0 and text[end - 1] == "$":
            end -= 1
    start = text.rfind(opening, 0, max(end, 0))
    return (end, text[start + len(opening) : end]) if 0 <= start < end else (-1, "")
