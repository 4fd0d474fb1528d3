"""Made-up evaluations for tests: rows as an evaluation writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from es_mpi.evaluation.folder import write_evaluation
from es_mpi.evaluation.rows import GREEDY, Row

SETTINGS = {"task_version": 1, "reward": "exact", "samples": 2, "temperature": 0.6, "top_p": 1.0, "max_tokens": 8}


def row(problem: str, sample: int, verdict: str, extracted: str | None = "1", **more: Any) -> Row:
    made = {
        "problem": problem, "sample": sample, "question": f"what is {problem}?", "answer": "1", "response": f"It is {extracted}.",
        "extracted": extracted, "verdict": verdict, "reward": float(verdict == "right"), "truncated": False,
        "token_ids": [1, 2, 3, 4, 5], **({} if sample == GREEDY else {"logprob": -2.5}),
    }  # fmt: skip
    return {**made, **more}


def rows_of(verdicts: Mapping[str, Sequence[bool]]) -> list[Row]:
    """For each problem a greedy response (the first flag) and sampled ones (the others)."""
    return [
        row(problem, place - 1, "right" if right else "wrong", "1" if right else "2")
        for problem, flags in verdicts.items()
        for place, right in enumerate(flags)
    ]


def evaluation(folder: Path, verdicts: Mapping[str, Sequence[bool]], task: str = "sums", **settings: Any) -> Path:
    """A folder as `es-mpi eval` leaves it."""
    rows = rows_of(verdicts)
    facts = {"source": "model", "tasks": {task: {"settings": {**SETTINGS, **settings}, "problems": len(verdicts)}}}
    write_evaluation(folder, facts, {task: rows})
    return folder
