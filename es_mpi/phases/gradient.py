"""One update of every gradient phase: draw groups, grade, then AdamW on the loss that the kind of phase puts together.

A rank samples the whole groups of its prompts with its own engine and computes their part of the gradient; gradients are summed,
so every rank makes the same steps. One division by the counts of all ranks, whatever their number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from es_mpi.comm.agree import agree_fields, sum_tallies
from es_mpi.comm.faults import agreed
from es_mpi.comm.torch_group import TorchGroup
from es_mpi.config.schema import GradientPhase
from es_mpi.errors import Divergence, EsMpiError, UsageError
from es_mpi.evaluation.metrics import distinct_n
from es_mpi.gradient.objective import Logged, MicroBatch
from es_mpi.gradient.rows import Policy, Rows, evaluate_policy, pack
from es_mpi.gradient.trainer import AdamW, Trainer, load_module
from es_mpi.params.hf_folder import load_master
from es_mpi.phases.context import RunContext, StepReport, Tally, common_metrics
from es_mpi.phases.rollout import Sample, Samples, Table, merge, sample_groups
from es_mpi.tasks.batches import Batch

REFERENCE = "reference.f32"

Settings = TypeVar("Settings", bound=GradientPhase)
Micro = TypeVar("Micro", bound=MicroBatch)


class NonFinite(EsMpiError):
    """A loss or gradient that is not a number, or infinite. Nothing of its step is applied."""


class GradientSteps(ABC, Generic[Settings, Micro]):
    """An open phase on one rank. `resume_from` is a checkpoint folder made within the phase, None at its start."""

    prefix: str  # of the tags that only this family of kinds has

    def __init__(self, run: RunContext, name: str, phase: Settings, resume_from: Path | None) -> None:
        self.run, self.name, self.phase = run, name, phase
        store = run.engine.store
        if not store.master.flags.writeable:
            raise UsageError("a gradient phase changes the master on the host", expected="host", key="engine.master")
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.group = TorchGroup(run.comm, self.device)
        adam = AdamW(phase.lr, phase.beta1, phase.beta2, phase.weight_decay, phase.max_grad_norm)
        self.trainer = Trainer(store, adam, phase.compute, self.group, self.device)
        if resume_from:
            self.trainer.load(resume_from)
        self.start_weights, self.reference = None, None
        if phase.reference != "none":
            weights = self._reference_weights(resume_from)
            self.start_weights = weights if phase.reference == "phase_start" else None
            self.reference = self.frozen(weights)

    @abstractmethod
    def micro_batches(self, samples: Samples, table: Table, part: range, first: bool) -> Iterator[Micro]:
        """This rank's share of one optimiser step, on the prompts at `part`. `first`: it is made before any weight moves."""

    @abstractmethod
    def loss(self, policy: Policy, micro: Micro) -> tuple[torch.Tensor, Logged]:
        """The micro-batch's part of the objective, and what to log: names that add up over micro-batches and ranks."""

    @abstractmethod
    def tags(self, table: Table, totals: Mapping[str, float]) -> dict[str, float]:
        """The curves that only this kind has. `totals` are sums over ranks, means over optimiser steps."""

    def penalty(self, tokens: int) -> float:
        """What to add to the reward of a response of so many tokens."""
        return 0.0

    def begin(self, step: int) -> None:
        """Before the responses of an update are drawn."""

    def rollout(self, batch: Batch, step: int, tally: Tally) -> tuple[Batch, Samples, Table, Mapping[str, Any]]:
        """The responses to the batch (or to another that it became), and what to record of how they came about."""
        samples = self.sample(batch, range(len(batch.prompts)), tally)
        return batch, samples, self.merge(samples, step, tally), {}

    def stepped(self, what: str, totals: Mapping[str, float]) -> None:
        """After each optimiser step, with what this rank has logged of it."""

    def step(self, step: int) -> StepReport:
        """Update number `step` (from 0 over all phases). Every rank returns the same record.

        Raises NonFinite, and Divergence when the ranks' masters differ afterwards.
        """
        run, phase, tally, sent = self.run, self.phase, Tally(), self.run.comm.bytes_sent
        self.begin(step)
        batch, samples, table, record = self.rollout(run.batches.at(step), step, tally)
        for group in samples.values():
            tally.add("distinct4", distinct_n([sample.completion.token_ids for sample in group]))
        with tally.timed("update"):
            self._optimise(batch, samples, table, step, tally)
            digest = run.engine.store.digest()
        agree_fields(run.comm, f"master weights after update {step + 1}", {"digest": digest}, error=Divergence)
        tally.add("bytes", run.comm.bytes_sent - sent)
        totals = sum_tallies(run.comm, tally.values)
        record = {
            "step": step + 1, "phase": self.name, "epoch": batch.epoch, "batch": batch.id, "lr": phase.lr,
            "rewards": [[outcome.reward if outcome.counts else None for outcome in table[i]] for i in sorted(table)],
            **record, "digest": digest,
        }  # fmt: skip
        metrics = {**self._metrics(table, totals), **self.tags(table, totals)}
        return StepReport(record, metrics, self._warnings(metrics))

    def save(self, folder: Path) -> None:
        """What resuming within the phase needs beside the master: the optimiser, and a reference that is not on disk."""
        self.trainer.save(folder)
        if self.start_weights is not None:
            self.start_weights.astype("<f4", copy=False).tofile(folder / REFERENCE)

    def close(self) -> None:
        self.run.comm.barrier(f"end of phase {self.name}")
        self.group.close()

    def sample(self, batch: Batch, places: Sequence[int], tally: Tally) -> Samples:
        """The groups of this rank's share of `places`."""
        mine = places[self.run.comm.rank :: self.run.comm.size]
        return sample_groups(self.run, self.phase, batch, mine, self.penalty, tally)

    def merge(self, samples: Samples, step: int, tally: Tally) -> Table:
        with tally.timed("idle"):
            self.run.comm.barrier(f"responses of update {step + 1}")
        with tally.timed("merge"):
            return merge(self.run, samples, f"rewards of update {step + 1}")

    def frozen(self, weights: NDArray[np.float32]) -> Any:
        """A model with these weights that is only asked, never trained."""
        return load_module(self.run.engine.store.layout, weights, self.device).requires_grad_(False)

    def evaluate(self, model: Any, rows: Rows) -> Policy:
        """What a model says of the rows, without a gradient."""
        with torch.no_grad(), self.trainer.computing():
            return evaluate_policy(model, rows, self.phase.temperature)

    def facts(self, chunk: Sequence[Sample], first: bool) -> dict[str, Any]:
        """The fields of `MicroBatch` for these responses."""
        rows = pack([s.prompt.token_ids for s in chunk], [s.completion.token_ids for s in chunk], self.device)
        engine = torch.zeros_like(rows.mask)
        for row, sample in enumerate(chunk):
            engine[row, : len(sample.completion.logprobs)] = torch.tensor(sample.completion.logprobs)
        return {
            "rows": rows, "engine": engine, "old": None if first else self.evaluate(self.trainer.model, rows).logp,
            "ref": None if self.reference is None else self.evaluate(self.reference, rows).logp,
        }  # fmt: skip

    def _reference_weights(self, resume_from: Path | None) -> NDArray[np.float32]:
        store = self.run.engine.store
        if self.phase.reference == "phase_start":
            return np.fromfile(resume_from / REFERENCE, "<f4") if resume_from else store.master.copy()
        weights = np.empty_like(store.master)
        load_master(store.layout, weights)
        return weights

    def _optimise(self, batch: Batch, samples: Samples, table: Table, step: int, tally: Tally) -> None:
        """Optimiser steps on parts of the batch, in its order, `epochs` times; each rank adds its own samples' gradient."""
        width = self.phase.minibatch or len(batch.prompts)
        parts = [range(i, min(i + width, len(batch.prompts))) for i in range(0, len(batch.prompts), width)]
        steps = len(parts) * self.phase.epochs
        work = [list(self.micro_batches(samples, table, part, first=steps == 1)) for part in parts]
        for number in range(steps):
            counts = Tally()
            finite = [self._backward(micro, counts) for micro in work[number % len(parts)]]
            norm = self.trainer.step()
            if not math.isfinite(norm):
                self._refuse(batch, step, number, all(finite))
            self.stepped(f"optimiser step {number + 1} of update {step + 1}", counts.values)
            for name, value in counts.values.items():
                tally.add(name, value / steps)
            tally.add("grad_norm", norm / steps / self.run.comm.size)

    def _backward(self, micro: Micro, counts: Tally) -> bool:
        """Add a micro-batch's gradient and count what is logged. Returns whether its loss is finite."""
        with self.trainer.computing():
            policy = evaluate_policy(self.trainer.model, micro.rows, self.phase.temperature)
        loss, logged = self.loss(policy, micro)
        if loss.requires_grad:  # not without pairs or exploration
            loss.backward()
        for name, value in logged.items():
            counts.add(name, float(value))
        mask = micro.rows.mask
        counts.add("trained_tokens", float(mask.sum()))
        counts.add("entropy", float((policy.entropy * mask).sum()))
        counts.add("gap", float(((micro.start(policy) - micro.engine).abs() * mask).sum()))
        return math.isfinite(float(logged["loss"]))

    def _refuse(self, batch: Batch, step: int, number: int, finite: bool) -> None:
        """Stop on every rank, naming those whose own loss was not finite (none: it was the gradient)."""
        flags = self.run.comm.allgather(f"finite losses of update {step + 1}", b"1" if finite else b"0")
        ranks = [rank for rank, flag in enumerate(flags) if flag == b"0"]
        where = f"the loss of rank(s) {ranks}" if ranks else "the gradient"
        raise agreed(
            NonFinite,
            f"update {step + 1}, batch {batch.id}, optimiser step {number + 1}: {where} is not finite; nothing of it is applied\n"
            f"  remedy    lower phases.{self.name}.lr, or compute: float32",
            silent=self.run.comm.rank != 0,
        )

    def _warnings(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        gap, alarm = metrics[f"{self.prefix}/logp_gap"], self.phase.gap_alarm
        if not gap > alarm:
            return ()
        return (f"engine and trainer differ by {gap:.3g} nats a token, phases.{self.name}.gap_alarm is {alarm:g}",)

    def _metrics(self, table: Table, totals: Mapping[str, float]) -> dict[str, float]:
        """The curves of every kind; means over tokens are over those that were trained on."""
        rewards = np.array([o.reward for group in table.values() for o in group if o.counts] or [math.nan])
        tokens = max(totals.get("trained_tokens", 0.0), 1.0)
        return {
            "reward/mean": float(rewards.mean()), "reward/std": float(rewards.std()),
            "reward/min": float(rewards.min()), "reward/max": float(rewards.max()),
            f"{self.prefix}/loss": totals.get("loss", 0.0), f"{self.prefix}/grad_norm": totals["grad_norm"],
            f"{self.prefix}/logp_gap": totals.get("gap", 0.0) / tokens,
            "diversity/entropy": totals.get("entropy", 0.0) / tokens,
            "diversity/distinct4": totals.get("distinct4", 0.0) / len(table),
            **common_metrics(totals, self.run.comm.size),
        }  # fmt: skip
