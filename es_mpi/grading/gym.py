"""`reasoning_gym`: the verifier that comes with a problem of the reasoning-gym library."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from es_mpi.errors import UsageError
from es_mpi.grading.final import final_answer
from es_mpi.grading.response import answer_part, judged, unanswered
from es_mpi.types import Grade, Verdict

OPEN, CLOSE = "<answer>", "</answer>"
INSTALL = "pip install 'es-mpi[gym]'"


def reasoning_gym(response: str, answer: str, truncated: bool) -> Grade:
    """The library's score, 0 to 1, of the last <answer>...</answer>, else of the final answer; right means a score of 1.

    `answer` is the problem as JSON, as `es_mpi.tasks.gym` writes it.
    """
    said = _said(response, truncated)
    if said is None:
        return unanswered(truncated)
    entry = json.loads(answer)
    score = float(scorer(entry["metadata"]["source_dataset"])(said, entry))
    if not math.isfinite(score):
        raise ValueError(f"the verifier gave a score of {score}")
    return judged(said, True) if score >= 1 else Grade(Verdict.WRONG, score, said)


def _said(response: str, truncated: bool) -> str | None:
    text = answer_part(response)
    start = text.rfind(OPEN)
    if start >= 0:
        end = text.find(CLOSE, start)
        return text[start + len(OPEN) : end].strip() if end >= 0 else None
    found = final_answer(text)
    return None if found is None or (truncated and found.open_end) else found.readings[0]


@cache
def scorer(dataset: str) -> Callable[[str, dict[str, Any]], float]:
    return library().get_score_answer_fn(dataset)  # type: ignore[no-any-return]


@cache
def library() -> Any:
    """The library, imported when a task needs it. UsageError where it is not installed."""
    try:
        import reasoning_gym
    except ImportError as error:
        raise UsageError(f"this task needs reasoning-gym ({error})", key="task.name", remedy=INSTALL) from error
    return reasoning_gym
