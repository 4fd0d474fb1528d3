"""`arithmetic`: sums, differences and products of small numbers, asked in chat or as a line to continue."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import ClassVar, Literal

from es_mpi.errors import UsageError, did_you_mean
from es_mpi.tasks.base import Split, chat, check_shots
from es_mpi.tasks.split import chosen, drawn
from es_mpi.types import Problem, PromptText

EXAMPLES, HELDOUT = 8, 400
SALT = "arithmetic 1"
OPERATIONS = {"+": operator.add, "-": operator.sub, "x": operator.mul}
LARGEST_OPERAND = {"+": 40, "-": 40, "x": 20}
FORMS = ("chat", "plain")

Twins = tuple[str, int, int]  # an operation and a >= b: one group with b + a and b x a


@dataclass(frozen=True)
class Arithmetic:
    """`What is 7 x 8? Answer with the number only.`, or in plain form `7x8=` after `shots` solved lines.

    400 held-out problems and all others (about 2200) to train on. 3+5 and 5+3 are in the same split, and only one of
    them is held out, so that held-out problems are independent. No result is negative. The examples are in no split.
    """

    form: Literal["chat", "plain"] = "chat"
    shots: int = 0
    system: str | None = None

    name: ClassVar[str] = "arithmetic"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            remedy = did_you_mean(str(self.form), FORMS)
            raise UsageError("no such form", value=self.form, key="task.options.form", remedy=remedy)
        check_shots(self.shots, EXAMPLES if self.form == "plain" else 0)

    @property
    def stop(self) -> tuple[str, ...]:
        return ("\n",) if self.form == "plain" else ()

    @property
    def reward(self) -> str:
        return "first_line" if self.form == "plain" else "last_number"

    def problems(self, split: Split) -> list[Problem]:
        groups = _groups()
        if split == "heldout":
            return [_one(twins) for twins in groups[EXAMPLES : EXAMPLES + HELDOUT]]
        return [problem for twins in groups[EXAMPLES + HELDOUT :] for problem in _both(twins)]

    def prompt(self, problem: Problem) -> PromptText:
        if self.form == "chat":
            return chat(f"What is {problem.question}? Answer with the number only.", self.system)
        examples = (_one(twins) for twins in _groups()[: self.shots])
        return "".join(f"{_line(example)}{example.answer}\n" for example in examples) + _line(problem)


def _line(problem: Problem) -> str:
    return problem.question.replace(" ", "") + "="


@cache
def _groups() -> list[Twins]:
    """All problems, twins together: examples, then held-out, then training problems."""
    groups = [
        (sign, b, a)
        for sign, largest in LARGEST_OPERAND.items()
        for a, b in combinations_with_replacement(range(1, largest + 1), 2)
    ]
    return drawn(groups, len(groups), SALT)


def _both(twins: Twins) -> Iterator[Problem]:
    sign, a, b = twins
    yield _problem(sign, a, b)
    if sign != "-" and a != b:
        yield _problem(sign, b, a)


def _one(twins: Twins) -> Problem:
    return chosen(list(_both(twins)), twins, f"{SALT} order")


def _problem(sign: str, a: int, b: int) -> Problem:
    return Problem(id=f"arithmetic-{a}{sign}{b}", question=f"{a} {sign} {b}", answer=str(OPERATIONS[sign](a, b)))
