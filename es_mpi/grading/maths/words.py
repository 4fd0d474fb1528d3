"""Answers in words: compared without case, articles, punctuation and order of what `and` joins."""

from __future__ import annotations

import re

from es_mpi.grading.maths.node import Node

_ARTICLES = frozenset({"a", "an", "the"})
UPRIGHT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_LETTERS = re.compile(r"[A-Za-z][A-Za-z ,;'.-]*")
_JOINS = re.compile(r"\band\b|,|;")


def same_words(gold: Node, answer: Node) -> bool:
    return gold.kind == answer.kind == "text" and key(gold.text) == key(answer.text)


def spoken(answer: str) -> tuple[str, ...] | None:
    """The key of an answer that has letters and punctuation only, upright or not; None of any other."""
    bare = UPRIGHT.sub(r"\1", answer).strip(" $.()")
    return key(bare) if _LETTERS.fullmatch(bare) else None


def key(text: str) -> tuple[str, ...]:
    """The phrases of an answer in words, sorted."""
    phrases = (re.findall(r"\w+", phrase.casefold()) for phrase in _JOINS.split(text))
    return tuple(sorted(" ".join([word for word in words if word not in _ARTICLES] or words) for words in phrases if words))
