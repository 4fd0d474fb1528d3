"""GRPO and ED-GRPO: advantages within the groups of responses, AdamW on the clipped policy loss.

    A_i = (R_i - mean R) / (std R + eps)
    L = agg(-min(rho A, clip(rho) A)) + beta_ref agg(KL(pi || pi_ref)) - kappa agg(KL(pi_prev || pi))

The last term is ED-GRPO's; pi_prev is frozen for `edo.outer_steps` updates. DAPO and Dr. GRPO are settings. Differences from the
papers (arXiv 2402.03300, 2605.09853): the weight that corrects for the engine's rounding, one division by the whole batch's
counts, and what bounds the last term, whose constants are not public.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from es_mpi.config.schema import EdGrpoPhase, PolicyPhase
from es_mpi.errors import EngineError
from es_mpi.gradient.advantage import advantages, has_signal, overlong_penalty
from es_mpi.gradient.losses import Totals, token_weights
from es_mpi.gradient.objective import Logged, PolicyBatch, exploration, policy_objective
from es_mpi.gradient.rows import Policy, Rows
from es_mpi.gradient.trainer import set_weights
from es_mpi.phases.context import RunContext, Tally
from es_mpi.phases.exploration import Exploration
from es_mpi.phases.gradient import GradientSteps
from es_mpi.phases.rollout import Outcome, Samples, Table
from es_mpi.tasks.batches import Batch

PREVIOUS, ITERATION = "previous.f32", "iteration.json"
SAME_KL = 5e-7  # nats a token between two policies whose log-probabilities differ by .001

S = TypeVar("S", bound=PolicyPhase)


class Grpo(GradientSteps[S, PolicyBatch]):
    """GRPO on one rank."""

    prefix = "grpo"

    def penalty(self, tokens: int) -> float:
        buffer, most = self.phase.overlong_buffer, self.run.sampling.max_tokens
        return overlong_penalty(tokens, max_tokens=most, buffer=buffer) if buffer else 0.0

    def rollout(self, batch: Batch, step: int, tally: Tally) -> tuple[Batch, Samples, Table, Mapping[str, Any]]:
        """The batch's responses. Dynamic sampling replaces prompts whose rewards are equal, which would teach nothing."""
        batch, samples, table, _ = super().rollout(batch, step, tally)
        redrawn = 0
        for _ in range(self.phase.redraws):
            flat = [place for place in sorted(table) if not has_signal(_rewards(table[place]))]
            batch, places = self.run.batches.redrawn(step, batch, flat, redrawn)
            if not places:
                break
            redrawn += len(places)
            fresh = self.sample(batch, places, tally)
            samples = {**{place: group for place, group in samples.items() if place not in places}, **fresh}
            table = {**table, **self.merge(fresh, step, tally)}
        tally.add("redrawn", redrawn / self.run.comm.size)
        return batch, samples, table, {"redrawn": redrawn} if self.phase.redraws else {}

    def micro_batches(self, samples: Samples, table: Table, part: range, first: bool) -> Iterator[PolicyBatch]:
        phase, usable = self.phase, [s for place in part for s in samples.get(place, ()) if s.outcome.counts]
        counted = [outcome.tokens for place in part for outcome in table[place] if outcome.counts]
        totals = Totals(max(len(counted), 1), max(sum(counted), 1))
        by_group = {place: self._advantages(table[place]) for place in part if place in samples}
        for i in range(0, len(usable), phase.microbatch):
            chunk = usable[i : i + phase.microbatch]
            facts = self.facts(chunk, first)
            rows: Rows = facts["rows"]
            weights = token_weights(rows.mask, phase.aggregation, totals, max_tokens=self.run.sampling.max_tokens)
            values = torch.tensor([[float(by_group[s.place][s.number])] for s in chunk], device=self.device)
            yield PolicyBatch(**facts, advantages=values, weights=weights, pushed=weights * self.pushable(rows))

    def pushable(self, rows: Rows) -> torch.Tensor:
        """The tokens [B, R] of an exploration term."""
        return rows.mask

    def loss(self, policy: Policy, micro: PolicyBatch) -> tuple[torch.Tensor, Logged]:
        return policy_objective(policy, micro, self.phase)

    def tags(self, table: Table, totals: Mapping[str, float]) -> dict[str, float]:
        tokens = max(totals.get("trained_tokens", 0.0), 1.0)
        flat = sum(not has_signal(_rewards(group)) for group in table.values())
        return {
            "grpo/kl": totals.get("kl", 0.0), "grpo/clip_frac": totals.get("clip_frac", 0.0),
            "grpo/entropy": totals.get("entropy", 0.0) / tokens, "grpo/zero_std_groups": flat / len(table),
            "grpo/redrawn": totals["redrawn"],
        }  # fmt: skip

    def _advantages(self, group: Sequence[Outcome]) -> Sequence[float]:
        phase = self.phase
        return list(advantages(_rewards(group), scale_by_std=phase.adv_std, ddof=phase.adv_ddof, epsilon=phase.adv_epsilon))


class EdGrpo(Grpo[EdGrpoPhase]):
    """GRPO that also moves away from pi_prev, the model at the start of its outer iteration."""

    def __init__(self, run: RunContext, name: str, phase: EdGrpoPhase, resume_from: Path | None) -> None:
        super().__init__(run, name, phase, resume_from)
        self.exploration = Exploration(run.comm, phase.edo, run.engine.store.layout.folder)
        self.age, self.starts = 0, False  # updates since pi_prev was frozen; whether none of its steps is made
        self.weights = run.engine.store.master.copy()
        if resume_from:
            state = json.loads((resume_from / ITERATION).read_text(encoding="utf-8"))
            self.age, self.exploration.paused = state["age"], state["paused"]
            self.weights[:] = np.fromfile(resume_from / PREVIOUS, "<f4")
        self.previous = self.frozen(self.weights)

    def begin(self, step: int) -> None:
        if self.age == self.phase.edo.outer_steps:
            self.age, self.exploration.paused = 0, False
            self.weights[:] = self.run.engine.store.master
            set_weights(self.previous, self.run.engine.store.layout, self.weights, self.device)
        self.starts = self.age == 0
        self.age += 1

    def pushable(self, rows: Rows) -> torch.Tensor:
        return self.exploration.pushable(rows)

    def loss(self, policy: Policy, micro: PolicyBatch) -> tuple[torch.Tensor, Logged]:
        loss, logged = super().loss(policy, micro)
        term, more = exploration(policy, self.evaluate(self.previous, micro.rows), micro, self.phase)
        if self.phase.kappa and not self.exploration.paused:
            loss = loss - self.phase.kappa * term
        return loss, {**logged, **more, "loss": loss.detach()}

    def stepped(self, what: str, totals: Mapping[str, float]) -> None:
        distance = self.exploration.measure(what, totals)
        if self.starts and distance > SAME_KL:
            raise EngineError(
                f"{what}: the model is {distance:.3g} nats a token from its own copy, before any step of the iteration"
            )
        self.starts = False

    def tags(self, table: Table, totals: Mapping[str, float]) -> dict[str, float]:
        return {**super().tags(table, totals), **self.exploration.tags(totals)}

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.weights.astype("<f4", copy=False).tofile(folder / PREVIOUS)
        state = {"age": self.age, "paused": self.exploration.paused}
        (folder / ITERATION).write_text(json.dumps(state), encoding="utf-8")


def _rewards(group: Sequence[Outcome]) -> list[float]:
    return [outcome.reward for outcome in group]
