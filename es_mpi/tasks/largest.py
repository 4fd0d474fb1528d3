"""`largest`: the largest of three numbers, in the few-shot form a base model can continue."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, permutations
from math import comb
from typing import ClassVar

from es_mpi.tasks.base import Split, check_shots
from es_mpi.tasks.split import chosen, drawn
from es_mpi.types import Problem

EXAMPLES, HELDOUT, TRAIN = 8, 400, 2000
SALT = "largest 1"
LARGEST = 99

# How many pairs, and how many triples, of numbers up to LARGEST in rising order begin with a number below 1, below 2, ...
_PAIRS = [0, *accumulate(LARGEST - first for first in range(1, LARGEST))]
_TRIPLES = [0, *accumulate(comb(LARGEST - first, 2) for first in range(1, LARGEST - 1))]


@dataclass(frozen=True)
class Largest:
    """`max(12,40,7)=` after `shots` solved lines; the first line of the response must be the answer.

    Numbers are 1 to 99, all different. 400 held-out and 2000 training problems; no three numbers occur in both, in
    any order. The examples are in neither.
    """

    shots: int = 4

    name: ClassVar[str] = "largest"
    version: ClassVar[int] = 1
    stop: ClassVar[tuple[str, ...]] = ("\n",)
    reward: ClassVar[str] = "first_line"

    def __post_init__(self) -> None:
        check_shots(self.shots, EXAMPLES)

    def problems(self, split: Split) -> list[Problem]:
        start = EXAMPLES if split == "heldout" else EXAMPLES + HELDOUT
        return list(_drawn()[start : start + (HELDOUT if split == "heldout" else TRAIN)])

    def prompt(self, problem: Problem) -> str:
        examples = (f"{example.question}{example.answer}\n" for example in _drawn()[: self.shots])
        return "".join(examples) + problem.question


@cache
def _drawn() -> tuple[Problem, ...]:
    """Examples, then held-out, then training problems."""
    places = drawn(range(comb(LARGEST, 3)), EXAMPLES + HELDOUT + TRAIN, SALT)
    return tuple(_problem(_triple(place)) for place in places)


def _triple(place: int) -> tuple[int, int, int]:
    """Number `place` of itertools.combinations(range(1, LARGEST + 1), 3), a list of which would take a tenth of `check`."""
    first = bisect(_TRIPLES, place)
    pair = place - _TRIPLES[first - 1] + _PAIRS[first]
    second = bisect(_PAIRS, pair)
    return first, second, second + 1 + pair - _PAIRS[second - 1]


def _problem(triple: tuple[int, ...]) -> Problem:
    shown = ",".join(map(str, chosen(list(permutations(triple)), triple, f"{SALT} order")))
    return Problem(id=f"largest-{shown}", question=f"max({shown})=", answer=str(max(triple)))
