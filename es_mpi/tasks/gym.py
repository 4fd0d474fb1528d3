"""`reasoning_gym`: any data set of the reasoning-gym library, with its own generator and verifier (optional dependency)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from es_mpi.errors import UsageError, did_you_mean
from es_mpi.grading.gym import library
from es_mpi.tasks.base import Split, chat
from es_mpi.types import Message, Problem

SEEDS: dict[Split, int] = {"train": 1, "heldout": 2}
SYSTEM = "Think step by step. Give your final answer between <answer> and </answer>."


@dataclass(frozen=True)
class ReasoningGym:
    """`dataset` is its name there, `settings` are passed to it. The task is also called `reasoning_gym/<dataset>`.

    2000 training and 400 held-out problems, drawn with different seeds; a question of the held-out ones is never trained on.
    The problems are a function of the library's version: pin it.
    """

    dataset: str
    train_size: int = 2000
    heldout_size: int = 400
    settings: dict[str, Any] = field(default_factory=dict)
    system: str = SYSTEM

    version: ClassVar[int] = 1
    stop: ClassVar[tuple[str, ...]] = ()
    reward: ClassVar[str] = "reasoning_gym"

    @property
    def name(self) -> str:
        return f"reasoning_gym/{self.dataset}"

    def problems(self, split: Split) -> list[Problem]:
        """UsageError where the library is missing, or knows no such data set or setting."""
        heldout = self._drawn("heldout", self.heldout_size)
        if split == "heldout":
            return list(heldout.values())
        return [problem for question, problem in self._drawn("train", self.train_size).items() if question not in heldout]

    def prompt(self, problem: Problem) -> list[Message]:
        return chat(problem.question, self.system)

    def _drawn(self, split: Split, size: int) -> dict[str, Problem]:
        """Problems by question, so that none is there twice."""
        try:
            entries = library().create_dataset(self.dataset, size=size, seed=SEEDS[split], **self.settings)
            return {
                entry["question"]: Problem(f"{self.dataset}-{split}-{i}", entry["question"], json.dumps(entry, default=str))
                for i, entry in enumerate(entries)
            }
        except (ValueError, TypeError, AssertionError) as error:
            from reasoning_gym.factory import DATASETS

            known = self.dataset in DATASETS
            raise UsageError(
                f"reasoning-gym refuses ({error})", value=self.settings if known else self.dataset,
                key="task.options.settings" if known else "task.options.dataset",
                remedy="" if known else did_you_mean(self.dataset, DATASETS),
            ) from error  # fmt: skip
