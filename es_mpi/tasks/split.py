"""A fixed pseudo-random order of generated problems, from which the splits are cut. It depends on no generator's version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from es_mpi.noise.address import permutation, subkey

T = TypeVar("T")
ROOT = 0  # problems are the same in every run, so no run's seed enters


def drawn(items: Sequence[T], count: int, salt: str) -> list[T]:
    """`count` items without replacement, in an order that `salt` decides; the shorter sample is a prefix of the longer."""
    return [items[i] for i in permutation(len(items), subkey(ROOT, salt), count)]


def chosen(options: Sequence[T], item: object, salt: str) -> T:
    """One of `options`, as a function of `salt` and the item's text."""
    return options[subkey(ROOT, f"{salt} {item}") % len(options)]
