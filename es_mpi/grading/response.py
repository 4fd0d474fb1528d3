"""What all graders share: where in a response the answer stands, and what to say when there is none."""

from __future__ import annotations

from es_mpi.types import Grade, Verdict

END_OF_THOUGHT = "</think>"


def answer_part(response: str) -> str:
    """What follows the last `</think>`; the whole response when it has none."""
    return response.rpartition(END_OF_THOUGHT)[2]


def judged(answer: str, right: bool, *, wrong_reward: float = 0.0) -> Grade:
    """The grade of a response that gave `answer` (in the grader's normal form, so that equal answers vote together)."""
    return Grade(Verdict.RIGHT, 1.0, answer) if right else Grade(Verdict.WRONG, wrong_reward, answer)


def unanswered(truncated: bool, *, reward: float = 0.0) -> Grade:
    """The grade of a response without an answer: cut off before it came, or never given."""
    return Grade(Verdict.TRUNCATED if truncated else Verdict.UNPARSED, reward)
