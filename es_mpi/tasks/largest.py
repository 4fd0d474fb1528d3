"""`largest`: the largest of three numbers, in the few-shot form a base model can continue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import ClassVar

from es_mpi.tasks.base import Split, check_shots
from es_mpi.tasks.split import chosen, drawn
from es_mpi.types import Problem

EXAMPLES, HELDOUT, TRAIN = 8, 400, 2000
SALT = "largest 1"


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
    triples = list(combinations(range(1, 100), 3))
    return tuple(_problem(triple) for triple in drawn(triples, EXAMPLES + HELDOUT + TRAIN, SALT))


def _problem(triple: tuple[int, ...]) -> Problem:
    shown = ",".join(map(str, chosen(list(permutations(triple)), triple, f"{SALT} order")))
    return Problem(id=f"largest-{shown}", question=f"max({shown})=", answer=str(max(triple)))
