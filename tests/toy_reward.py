"""Rewards for the toy engine, named in test configs as `module:function`."""

from __future__ import annotations

import math
import os
import time

from es_mpi.types import Grade, Verdict


def closeness(response: str, answer: str, truncated: bool) -> Grade:
    """1 for the answer's last digit, less the further away: something a policy of one digit can learn."""
    distance = abs(int(response) - int(answer) % 10)
    return Grade(Verdict.RIGHT if distance == 0 else Verdict.WRONG, 1.0 - distance / 9, response)


def slow_closeness(response: str, answer: str, truncated: bool) -> Grade:
    """The same, slow enough that a kill meets a step half done."""
    time.sleep(0.002)
    return closeness(response, answer, truncated)


def nan_on_rank_1(response: str, answer: str, truncated: bool) -> Grade:
    """A grader that fails for every member of rank 1."""
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
        return Grade(Verdict.WRONG, math.nan)
    return closeness(response, answer, truncated)


def always_raises(response: str, answer: str, truncated: bool) -> Grade:
    raise RuntimeError("this grader is broken")


def half_a_second(response: str, answer: str, truncated: bool) -> Grade:
    """So slow that an update outlasts any patience with a signal."""
    time.sleep(0.5)
    return closeness(response, answer, truncated)


def raises_in_training(response: str, answer: str, truncated: bool) -> Grade:
    """The same, but not on the trial before the training, where the response is the whole answer."""
    return always_raises(response, answer, truncated) if response != answer else closeness(response, answer, truncated)


def returns_text(response: str, answer: str, truncated: bool) -> str:
    return "right"
