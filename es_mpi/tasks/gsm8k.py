"""`gsm8k`: grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168) from local JSON Lines files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from es_mpi.errors import UsageError
from es_mpi.tasks.base import Split, chat
from es_mpi.tasks.jsonl import load_problems
from es_mpi.types import Message, Problem

SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."  # the ES paper's, to the letter
MARKER = "####"


@dataclass(frozen=True)
class Gsm8k:
    """The bare question after a system message. `answer` may be the final answer or a solution that ends in `#### 18`."""

    train: str | None = None
    heldout: str | None = None
    system: str = SYSTEM

    name: ClassVar[str] = "gsm8k"
    version: ClassVar[int] = 1
    stop: ClassVar[tuple[str, ...]] = ()
    reward: ClassVar[str] = "boxed_string"

    def problems(self, split: Split) -> list[Problem]:
        """Reads and checks the file of the split; UsageError if none is configured or a row is bad."""
        path, key = (self.train, "task.train") if split == "train" else (self.heldout, "task.heldout")
        if path is None:
            raise UsageError("gsm8k needs a data file", expected="a JSON Lines file with question and answer", key=key)
        rows = load_problems(path, key=key, prefix=f"gsm8k-{split}")
        return [replace(row, answer=_final_answer(row, path, key)) for row in rows]

    def prompt(self, problem: Problem) -> list[Message]:
        return chat(problem.question, self.system)


def _final_answer(row: Problem, path: str, key: str) -> str:
    answer = row.answer.rpartition(MARKER)[2].strip().replace(",", "")
    if not answer:
        raise UsageError(f"{path}, problem {row.id!r}: no final answer", value=row.answer, expected="#### 18", key=key)
    return answer
