"""The tasks that ask a question from a data file in chat: one class, and a table of what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from es_mpi.errors import UsageError
from es_mpi.grading.boxed import last_box
from es_mpi.tasks.base import Split, chat
from es_mpi.tasks.problems import ANSWER, QUESTION, load_problems
from es_mpi.types import Message, Problem

BOXED = r"Please reason step by step, and put your final answer within \boxed{}."  # the ES paper's, to the letter
MARKER = "####"


@dataclass(frozen=True)
class Kind:
    """What sets one of these tasks apart. `answer` are field names, the first that a row has counts."""

    reward: str = "math_verify"
    system: str = BOXED
    question: Sequence[str] = QUESTION
    answer: Sequence[str] = ANSWER
    whole_numbers: bool = False  # reference answers such as 1,024 are numbers, written without commas


KINDS: Mapping[str, Kind] = {
    "gsm8k": Kind("boxed_string", whole_numbers=True),  # Cobbe et al. 2021, arXiv 2110.14168
    "svamp": Kind(whole_numbers=True),  # Patel et al. 2021, arXiv 2103.07191
    "math": Kind(),  # Hendrycks et al. 2021, arXiv 2103.03874, in the form of MATH-500
    "deepscaler": Kind(),  # DeepScaleR-Preview
    "aime": Kind(),
    "amc": Kind(),
    "minerva": Kind(),  # Lewkowycz et al. 2022, arXiv 2206.14858
    "olympiadbench": Kind(answer=("final_answer", "answer")),  # He et al. 2024, arXiv 2402.14008
}


@dataclass(frozen=True)
class Questions:
    r"""The bare question after a system message.

    An answer may be the final answer, or a worked solution that ends in `#### 18` or holds it in its last \boxed{}.
    """

    name: str
    train: str | None = None
    heldout: str | None = None
    system: str | None = None

    version: ClassVar[int] = 1
    stop: ClassVar[tuple[str, ...]] = ()

    @property
    def reward(self) -> str:
        return KINDS[self.name].reward

    def problems(self, split: Split) -> list[Problem]:
        """Reads and checks the data of the split; UsageError if none is configured or a row is bad."""
        source, key = (self.train, "task.train") if split == "train" else (self.heldout, "task.heldout")
        if source is None:
            raise UsageError(
                f"{self.name} needs a data file", expected="JSON Lines or Parquet with question and answer, or a hub id", key=key
            )
        kind = KINDS[self.name]
        rows = load_problems(
            source, key=key, prefix=f"{self.name}-{split}", split="train" if split == "train" else "test",
            question=kind.question, answer=kind.answer,
        )  # fmt: skip
        return [replace(row, answer=_final_answer(row, source, key, kind.whole_numbers)) for row in rows]

    def prompt(self, problem: Problem) -> list[Message]:
        return chat(problem.question, KINDS[self.name].system if self.system is None else self.system)


def _final_answer(row: Problem, source: str, key: str, whole_numbers: bool) -> str:
    answer = row.answer
    if MARKER in answer:
        answer = answer.rpartition(MARKER)[2]
    elif (boxed := last_box(answer)) is not None:
        answer = boxed
    answer = answer.strip().replace(",", "") if whole_numbers else answer.strip()
    if not answer:
        raise UsageError(f"{source}, problem {row.id!r}: no final answer", value=row.answer, expected="#### 18", key=key)
    return answer
