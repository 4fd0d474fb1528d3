"""A fixed pseudo-random order of generated problems, from which the splits are cut."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


def rank(item: object, salt: str) -> int:
    """A 64-bit number that is a function of `salt` and the item's text: no generator, so no version of one to depend on."""
    return int.from_bytes(blake2b(f"{salt} {item}".encode(), digest_size=8).digest(), "big")


def first_by_rank(items: Iterable[T], count: int, salt: str) -> list[T]:
    """The `count` items of lowest rank, in that order: a sample without replacement, the shorter one a prefix of the longer."""
    return heapq.nsmallest(count, items, key=lambda item: rank(item, salt))
