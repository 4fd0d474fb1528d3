"""`countdown`: make a target from three or four numbers, as in TinyZero and arXiv 2509.24372. Every problem can be solved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

from es_mpi.noise.address import subkey
from es_mpi.tasks.base import Split, chat
from es_mpi.tasks.problems import load_problems
from es_mpi.types import Message, Problem

TRAIN, HELDOUT = 200, 2000
LARGEST = 100  # number and target
SALT = "countdown 1"
SYSTEM = "You are a helpful assistant. First think about the reasoning process, then provide the user with the answer."
QUESTION = (
    "Use the numbers {numbers}, each exactly once, with +, -, *, / and brackets to make {target}. "
    "Think inside <think> </think>, then give the expression inside <answer> </answer>, for example <answer>(1 + 2) / 3</answer>."
)
_OPERATIONS: Mapping[int, Callable[[Fraction, Fraction], Fraction]] = {
    0: lambda a, b: a + b, 1: lambda a, b: a - b, 2: lambda a, b: a * b, 3: lambda a, b: a / b,
}  # fmt: skip


@dataclass(frozen=True)
class Countdown:
    """200 training and 2000 held-out problems of its own, half of them with three numbers and half with four, 1 to 100.

    A problem is made from its solution: numbers are joined at random until one is left that is whole and at most 100. Or rows
    from files, with `numbers` and `target` in JSON as the answer.
    """

    train: str | None = None
    heldout: str | None = None
    system: str = SYSTEM

    name: ClassVar[str] = "countdown"
    version: ClassVar[int] = 1
    stop: ClassVar[tuple[str, ...]] = ()
    reward: ClassVar[str] = "countdown"

    def problems(self, split: Split) -> list[Problem]:
        source, key = (self.train, "task.train") if split == "train" else (self.heldout, "task.heldout")
        if source is not None:
            return load_problems(source, key=key, prefix=f"countdown-{split}")
        made = list(_made())
        return made[HELDOUT:] if split == "train" else made[:HELDOUT]

    def prompt(self, problem: Problem) -> list[Message]:
        return chat(problem.question, self.system)


@cache
def _made() -> tuple[Problem, ...]:
    """Held-out, then training problems; no two have the same numbers and target."""
    found: dict[str, Problem] = {}
    attempt = 0
    while len(found) < HELDOUT + TRAIN:
        problem = _attempt(attempt, 3 + len(found) % 2)
        attempt += 1
        if problem is not None:
            found.setdefault(problem.id, problem)
    return tuple(found.values())


def _attempt(attempt: int, count: int) -> Problem | None:
    """Draws `count` numbers and joins two neighbours at a time; None where the value is no target."""
    draws = [subkey(0, SALT, attempt, i) for i in range(3 * count)]
    numbers = [1 + draw % LARGEST for draw in draws[:count]]
    values = [Fraction(n) for n in numbers]
    for place, sign in zip(draws[count : 2 * count - 1], draws[2 * count :], strict=False):
        i = place % (len(values) - 1)
        if sign % 4 == 3 and values[i + 1] == 0:
            return None
        values[i : i + 2] = [_OPERATIONS[sign % 4](values[i], values[i + 1])]
    if values[0].denominator != 1 or not 1 <= values[0] <= LARGEST:
        return None
    return _problem(sorted(numbers, key=lambda n: subkey(0, SALT, attempt, n, 1)), int(values[0]))


def _problem(numbers: list[int], target: int) -> Problem:
    return Problem(
        id=f"countdown-{'-'.join(map(str, sorted(numbers)))}-{target}",
        question=QUESTION.format(numbers=numbers, target=target),
        answer=json.dumps({"numbers": numbers, "target": target}),
    )
