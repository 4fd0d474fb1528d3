"""`exact`: the final answer, letter by letter."""

from __future__ import annotations

from es_mpi.grading.final import final_answer
from es_mpi.grading.response import judged, unanswered
from es_mpi.types import Grade


def exact(response: str, answer: str, truncated: bool) -> Grade:
    """Right where the final answer is `answer`, but for the spaces around and between its words. Reward 1, else 0."""
    found = final_answer(response)
    if found is None or (truncated and found.open_end):
        return unanswered(truncated)
    given = " ".join(found.readings[0].split())
    return judged(given, given == " ".join(answer.split()))
