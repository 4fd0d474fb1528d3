"""iDPO and ED-iDPO: in each update candidates of the model as it is, pairs of right and wrong ones, AdamW on DPO's loss.

    L = mean over pairs (DPO + lambda NLL(y_w)) - alpha J,    J = -beta mean_x mean_i Delta(y_i) over ALL N candidates

An update is one outer iteration: pi_prev is the model at its start, which also is the reference of DPO unless `ref` says
otherwise. Differences from the papers (arXiv 2404.19733, 2605.09853): an iteration's prompts are one batch, so
`task.batch_size` says how many, and the constants of the last term are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from es_mpi.config.schema import EdIdpoPhase, ExplorationConfig, PreferencePhase
from es_mpi.gradient.edo import candidate_weights
from es_mpi.gradient.objective import Logged
from es_mpi.gradient.pairs import pairs
from es_mpi.gradient.preference import PairBatch, preference_objective
from es_mpi.gradient.rows import Policy
from es_mpi.noise.address import subkey
from es_mpi.phases.context import RunContext, Tally
from es_mpi.phases.exploration import Exploration
from es_mpi.phases.gradient import GradientSteps
from es_mpi.phases.rollout import Outcome, Sample, Samples, Table
from es_mpi.tasks.batches import Batch

Unit = tuple[Sample, ...]  # what one forward pass must hold together: a pair (winner first), or a candidate alone


class Idpo(GradientSteps[PreferencePhase, PairBatch]):
    """Either kind on one rank; without exploration only pairs are computed."""

    prefix = "dpo"

    def __init__(self, run: RunContext, name: str, phase: PreferencePhase, resume_from: Path | None) -> None:
        super().__init__(run, name, phase, resume_from)
        settings = phase.edo if isinstance(phase, EdIdpoPhase) else ExplorationConfig(kl_cap=None)
        self.exploration = Exploration(run.comm, settings, run.engine.store.layout.folder)
        self.explores = isinstance(phase, EdIdpoPhase) and phase.alpha > 0

    def begin(self, step: int) -> None:
        self.exploration.paused = False

    def rollout(self, batch: Batch, step: int, tally: Tally) -> tuple[Batch, Samples, Table, Mapping[str, Any]]:
        batch, samples, table, _ = super().rollout(batch, step, tally)
        self.pairs = {place: self._pairs(step, place, table[place]) for place in table}
        return batch, samples, table, {"pairs": sum(map(len, self.pairs.values()))}

    def _pairs(self, step: int, place: int, group: Sequence[Outcome]) -> list[tuple[int, int]]:
        """(winner, loser) numbers in the group, the same on every rank."""
        numbers = [number for number, outcome in enumerate(group) if outcome.counts]
        seed = subkey(self.run.run_seed, "pairs", step, place)
        found = pairs([group[number].right for number in numbers], most=self.phase.pairs, seed=seed)
        return [(numbers[winner], numbers[loser]) for winner, loser in found]

    def micro_batches(self, samples: Samples, table: Table, part: range, first: bool) -> Iterator[PairBatch]:
        count = sum(len(self.pairs[place]) for place in part)
        sizes = {place: sum(outcome.counts for outcome in table[place]) for place in part}
        prompts = sum(size > 0 for size in sizes.values())
        units = [unit for place in part if place in samples for unit in self._units(place, samples[place])]
        for chunk in _filled(units, self.phase.microbatch):
            flat = [sample for unit in chunk for sample in unit]
            starts = [sum(map(len, chunk[:i])) for i, unit in enumerate(chunk) if len(unit) == 2]
            facts = self.facts(flat, first)
            weights = candidate_weights(torch.tensor([sizes[s.place] for s in flat], device=self.device), max(prompts, 1))
            yield PairBatch(
                **facts, winners=torch.tensor(starts, dtype=torch.long, device=self.device),
                losers=torch.tensor(starts, dtype=torch.long, device=self.device) + 1, pair_weight=1 / max(count, 1),
                candidates=weights * self.explores, pushed=self.exploration.pushable(facts["rows"]),
            )  # fmt: skip

    def _units(self, place: int, group: Sequence[Sample]) -> Iterator[Unit]:
        for winner, loser in self.pairs[place]:
            yield group[winner], group[loser]
        paired = {number for pair in self.pairs[place] for number in pair}
        if self.explores:
            yield from ((sample,) for sample in group if sample.number not in paired and sample.outcome.counts)

    def loss(self, policy: Policy, micro: PairBatch) -> tuple[torch.Tensor, Logged]:
        return preference_objective(policy, micro, self.phase, self.explores and not self.exploration.paused)

    def stepped(self, what: str, totals: Mapping[str, float]) -> None:
        self.exploration.measure(what, totals)

    def tags(self, table: Table, totals: Mapping[str, float]) -> dict[str, float]:
        values = {f"dpo/{name}": totals.get(name, 0.0) for name in ("margin", "accuracy", "logp_chosen")}
        return {**values, "dpo/pairs": float(sum(map(len, self.pairs.values()))), **self.exploration.tags(totals)}


def _filled(units: Sequence[Unit], most: int) -> Iterator[Sequence[Unit]]:
    """Runs of units with at most `most` (at least 2) responses each."""
    chunk: list[Unit] = []
    for unit in units:
        if chunk and sum(map(len, chunk)) + len(unit) > most:
            yield chunk
            chunk = []
        chunk.append(unit)
    if chunk:
        yield chunk
