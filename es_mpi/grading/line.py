"""`first_line`: the first line of the response, and nothing else."""

from __future__ import annotations

from es_mpi.grading.response import judged, unanswered
from es_mpi.types import Grade


def first_line(response: str, answer: str, truncated: bool) -> Grade:
    """Right when the first line, without the spaces around it, is exactly `answer`: reward 1, else 0.

    A line that was cut off is no answer, even if it looks right so far: 4 may have been the start of 40.
    """
    line, line_feed, _ = response.partition("\n")
    line = line.strip()
    if not line or (truncated and not line_feed):
        return unanswered(truncated)
    return judged(line, line == answer.strip())
