"""Groups of graded responses to a batch's prompts, from the weights as they are, and what all ranks know of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from es_mpi.config.schema import GradientPhase
from es_mpi.errors import EngineError
from es_mpi.phases.context import RunContext, Tally
from es_mpi.tasks.batches import Batch, sampling_seed
from es_mpi.types import Completion, Item, Prompt, Sampling, Verdict


class Outcome(NamedTuple):
    """What every rank learns of a response: its reward (NaN: the grader failed, it counts nowhere), tokens, and verdict."""

    reward: float
    tokens: int
    right: bool

    @property
    def counts(self) -> bool:
        return math.isfinite(self.reward)


Table = dict[int, Sequence[Outcome]]
"""Place in the batch to the outcomes of its group, in the order they were drawn."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One response: the place of its prompt in the batch, its number in the group."""

    place: int
    number: int
    prompt: Prompt
    completion: Completion
    outcome: Outcome


Samples = Mapping[int, Sequence[Sample]]  # by place, of this rank's prompts


def sample_groups(
    run: RunContext, phase: GradientPhase, batch: Batch, places: Sequence[int], penalty: Callable[[int], float], tally: Tally
) -> Samples:
    """`group_size` graded responses to the prompt at each of `places`. `penalty` of a length in tokens is added to rewards."""
    size = phase.group_size
    with tally.timed("load"):
        version = run.engine.load(None)
    draws = [(place, number) for place in places for number in range(size)]
    seeds = [sampling_seed(batch.seeds[place], "group", number) for place, number in draws]
    sampling = Sampling(phase.temperature, 1.0, run.sampling.max_tokens, run.sampling.stop, logprobs=True)
    with tally.timed("generate"):
        completions = run.engine.generate([batch.prompts[place] for place, _ in draws], sampling, seeds)
    if any(c.version != version for c in completions):
        raise EngineError(f"responses of weights version {completions[0].version}, the weights are {version}")
    tally.add("responses", len(completions))
    tally.add("tokens", sum(len(c.token_ids) for c in completions))
    tally.add("truncated", sum(c.truncated for c in completions))
    answers = [batch.problems[place].answer for place, _ in draws]
    with tally.timed("grade"):
        grades = run.grading.submit([Item(c.text, a, c.truncated) for c, a in zip(completions, answers, strict=True)])()
    samples: dict[int, list[Sample]] = {place: [] for place in places}
    for (place, number), completion, grade in zip(draws, completions, grades, strict=True):
        tally.add(f"grade/{grade.verdict}")
        tokens = len(completion.token_ids)
        reward = math.nan if grade.verdict is Verdict.ERROR else grade.reward + penalty(tokens)
        outcome = Outcome(reward, tokens, grade.verdict is Verdict.RIGHT)
        samples[place].append(Sample(place, number, batch.prompts[place], completion, outcome))
    return samples


def merge(run: RunContext, samples: Samples, what: str) -> Table:
    """Every rank's outcomes, on every rank."""
    mine = {place: [sample.outcome for sample in group] for place, group in samples.items()}
    parts = run.comm.allgather(what, json.dumps(mine).encode())
    return {int(i): [Outcome(*outcome) for outcome in group] for part in parts for i, group in json.loads(part).items()}
