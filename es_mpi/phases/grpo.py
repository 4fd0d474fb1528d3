"""GRPO: groups of responses to each prompt, advantages within a group, AdamW on the clipped policy loss.

    A_i = (R_i - mean R) / (std R + eps),   L = agg(-min(rho A, clip(rho) A)) + beta_ref agg(KL(pi || pi_ref))

A rank samples the whole groups of its prompts with its own engine, and computes their part of the gradient; gradients are
summed, so every rank makes the same step. DAPO and Dr. GRPO are settings. Differences from the paper (arXiv 2402.03300): the
weight that corrects for the engine's rounding, and one division by the whole batch's counts, whatever the number of ranks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from es_mpi.comm.agree import agree_fields, sum_tallies
from es_mpi.comm.faults import agreed
from es_mpi.comm.torch_group import TorchGroup
from es_mpi.config.schema import GrpoPhase
from es_mpi.errors import Divergence, EngineError, EsMpiError, UsageError
from es_mpi.gradient.advantage import advantages, has_signal, overlong_penalty
from es_mpi.gradient.losses import Totals, token_weights
from es_mpi.gradient.objective import Frozen, grpo_loss
from es_mpi.gradient.rows import Rows, pack, token_log_probs
from es_mpi.gradient.trainer import AdamW, Trainer, load_module
from es_mpi.grading.process import Item
from es_mpi.params.hf_folder import load_master
from es_mpi.phases.context import RunContext, StepReport, Tally, common_metrics
from es_mpi.tasks.batches import Batch, sampling_seed
from es_mpi.types import Completion, Prompt, Sampling, Verdict

REFERENCE = "reference.f32"


class NonFinite(EsMpiError):
    """A loss or gradient that is not a number, or infinite. Nothing of its step is applied."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One response: the place of its prompt in the batch, its reward (NaN: the grader failed)."""

    place: int
    prompt: Prompt
    completion: Completion
    reward: float


Table = Mapping[int, Sequence[tuple[float, int]]]  # place in the batch to (reward, tokens) of each response of the group


class Grpo:
    """An open phase on one rank. `resume_from` is a checkpoint folder made within the phase, None at its start."""

    def __init__(self, run: RunContext, name: str, phase: GrpoPhase, resume_from: Path | None) -> None:
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
        self.reference_weights, self.reference = None, None
        if phase.beta_ref > 0:
            self.reference_weights = self._reference_weights(resume_from)
            self.reference = load_module(store.layout, self.reference_weights, self.device).requires_grad_(False)

    def step(self, step: int) -> StepReport:
        """Update number `step` (from 0 over all phases). Every rank returns the same record.

        Raises NonFinite, and Divergence when the ranks' masters differ afterwards.
        """
        run, phase, tally, sent = self.run, self.phase, Tally(), self.run.comm.bytes_sent
        batch = run.batches.at(step)
        samples = self._sample(batch, tally)
        with tally.timed("idle"):
            run.comm.barrier(f"responses of update {step + 1}")
        with tally.timed("merge"):
            table = self._merge(samples, step)
        with tally.timed("update"):
            self._optimise(batch, samples, table, step, tally)
            digest = run.engine.store.digest()
        agree_fields(run.comm, f"master weights after update {step + 1}", {"digest": digest}, error=Divergence)
        tally.add("bytes", run.comm.bytes_sent - sent)
        totals = sum_tallies(run.comm, tally.values)
        record = {
            "step": step + 1, "phase": self.name, "epoch": batch.epoch, "batch": batch.id, "lr": phase.lr,
            "rewards": [[reward if math.isfinite(reward) else None for reward, _ in table[i]] for i in sorted(table)],
            "digest": digest,
        }  # fmt: skip
        metrics = _metrics(table, totals, run.comm.size)
        return StepReport(record, metrics, self._warnings(metrics))

    def save(self, folder: Path) -> None:
        """What resuming within the phase needs beside the master: the optimiser, and a reference that is not on disk."""
        self.trainer.save(folder)
        if self.reference_weights is not None and self.phase.ref == "phase_start":
            self.reference_weights.astype("<f4", copy=False).tofile(folder / REFERENCE)

    def close(self) -> None:
        self.run.comm.barrier(f"end of phase {self.name}")
        self.group.close()

    def _reference_weights(self, resume_from: Path | None) -> Any:
        store = self.run.engine.store
        if self.phase.ref == "phase_start":
            return np.fromfile(resume_from / REFERENCE, "<f4") if resume_from else store.master.copy()
        weights = np.empty_like(store.master)
        load_master(store.layout, weights)
        return weights

    def _sample(self, batch: Batch, tally: Tally) -> list[Sample]:
        """The graded responses to this rank's prompts, group after group. Overlong ones have their penalty."""
        run, size = self.run, self.phase.group_size
        with tally.timed("load"):
            version = run.engine.load(None)
        places = [i for i in range(run.comm.rank, len(batch.prompts), run.comm.size) for _ in range(size)]
        seeds = [sampling_seed(batch.seeds[place], "group", n % size) for n, place in enumerate(places)]
        sampling = Sampling(self.phase.temperature, 1.0, run.sampling.max_tokens, run.sampling.stop, logprobs=True)
        with tally.timed("generate"):
            completions = run.engine.generate([batch.prompts[i] for i in places], sampling, seeds)
        if any(c.version != version for c in completions):
            raise EngineError(f"responses of weights version {completions[0].version}, the weights are {version}")
        tally.add("responses", len(completions))
        tally.add("tokens", sum(len(c.token_ids) for c in completions))
        tally.add("truncated", sum(c.truncated for c in completions))
        items = [Item(c.text, batch.problems[i].answer, c.truncated) for i, c in zip(places, completions, strict=True)]
        with tally.timed("grade"):
            grades = run.grading.submit(items)()
        samples = []
        for place, completion, grade in zip(places, completions, grades, strict=True):
            tally.add(f"grade/{grade.verdict}")
            reward = math.nan if grade.verdict is Verdict.ERROR else grade.reward + self._penalty(completion)
            samples.append(Sample(place, batch.prompts[place], completion, reward))
        return samples

    def _penalty(self, completion: Completion) -> float:
        buffer = self.phase.overlong_buffer
        length, most = len(completion.token_ids), self.run.sampling.max_tokens
        return overlong_penalty(length, max_tokens=most, buffer=buffer) if buffer else 0.0

    def _merge(self, samples: Sequence[Sample], step: int) -> Table:
        """Every rank's rewards and lengths, on every rank."""
        mine: dict[int, list[tuple[float, int]]] = {}
        for sample in samples:
            mine.setdefault(sample.place, []).append((sample.reward, len(sample.completion.token_ids)))
        parts = self.run.comm.allgather(f"rewards of update {step + 1}", json.dumps(mine).encode())
        return {int(i): [(reward, length) for reward, length in group] for part in parts for i, group in json.loads(part).items()}

    def _optimise(self, batch: Batch, samples: Sequence[Sample], table: Table, step: int, tally: Tally) -> None:
        """One optimiser step a mini-batch of prompts, in the batch's order; each rank adds its own samples' gradient."""
        width = self.phase.minibatch or len(batch.prompts)
        parts = [range(i, min(i + width, len(batch.prompts))) for i in range(0, len(batch.prompts), width)]
        several = len(parts) > 1
        work = [[self._micro(chunk, table, part, several) for chunk in self._chunks(samples, part)] for part in parts]
        for number, micros in enumerate(work):
            finite = [self._backward(rows, frozen, len(parts), tally) for rows, frozen in micros]
            norm = self.trainer.step()
            if not math.isfinite(norm):
                self._refuse(batch, step, number, all(finite))
            tally.add("grad_norm", norm / len(parts) / self.run.comm.size)

    def _chunks(self, samples: Sequence[Sample], part: range) -> Iterator[Sequence[Sample]]:
        """Micro-batches of the samples with a reward whose prompts lie in `part`."""
        usable = [s for s in samples if s.place in part and math.isfinite(s.reward)]
        return (usable[i : i + self.phase.microbatch] for i in range(0, len(usable), self.phase.microbatch))

    def _micro(self, chunk: Sequence[Sample], table: Table, part: range, several: bool) -> tuple[Rows, Frozen]:
        """The tensors of a micro-batch. `several` says that weights will have moved before some of them are used."""
        phase = self.phase
        rows = pack([s.prompt.token_ids for s in chunk], [s.completion.token_ids for s in chunk], self.device)
        counted = [length for i in part for reward, length in table[i] if math.isfinite(reward)]
        totals = Totals(len(counted), sum(counted))
        engine = torch.zeros_like(rows.mask)
        for row, sample in enumerate(chunk):
            engine[row, : len(sample.completion.logprobs)] = torch.tensor(sample.completion.logprobs)
        frozen = Frozen(
            advantages=torch.tensor([[self._advantage(s, table)] for s in chunk], device=self.device),
            weights=token_weights(rows.mask, phase.aggregation, totals, max_tokens=self.run.sampling.max_tokens),
            engine=engine,
            old=self._log_probs(self.trainer.model, rows) if several else None,
            ref=None if self.reference is None else self._log_probs(self.reference, rows),
        )
        return rows, frozen

    def _advantage(self, sample: Sample, table: Table) -> float:
        rewards = [reward for reward, _ in table[sample.place]]
        phase = self.phase
        values = advantages(rewards, scale_by_std=phase.adv_std, ddof=phase.adv_ddof, epsilon=phase.adv_epsilon)
        return float(values[rewards.index(sample.reward)])  # equal rewards of a group have equal advantages

    def _log_probs(self, model: Any, rows: Rows) -> torch.Tensor:
        with torch.no_grad(), self.trainer.computing():
            return token_log_probs(model, rows, self.phase.temperature)[0]

    def _backward(self, rows: Rows, frozen: Frozen, parts: int, tally: Tally) -> bool:
        """Add a micro-batch's gradient and count what is logged, as means over `parts`. Returns whether its loss is finite."""
        with self.trainer.computing():
            logp, entropy = token_log_probs(self.trainer.model, rows, self.phase.temperature)
        loss, logged = grpo_loss(logp, frozen, self.phase)
        loss.backward()
        for name, value in logged.items():
            tally.add(name, float(value) / parts)
        old = logp.detach() if frozen.old is None else frozen.old
        tally.add("trained_tokens", float(rows.mask.sum()))
        tally.add("entropy", float((entropy * rows.mask).sum()))
        tally.add("gap", float(((old - frozen.engine).abs() * rows.mask).sum()))
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
        gap, alarm = metrics["grpo/logp_gap"], self.phase.gap_alarm
        if not gap > alarm:
            return ()
        return (f"engine and trainer differ by {gap:.3g} nats a token, phases.{self.name}.gap_alarm is {alarm:g}",)


def _metrics(table: Table, totals: Mapping[str, float], ranks: int) -> Mapping[str, float]:
    """The tags of one step; means over tokens are over the tokens that were trained on."""
    rewards = np.array([reward for group in table.values() for reward, _ in group if math.isfinite(reward)] or [math.nan])
    tokens = max(totals.get("trained_tokens", 0.0), 1.0)
    flat = sum(not has_signal([reward for reward, _ in group]) for group in table.values())
    return {
        "reward/mean": float(rewards.mean()), "reward/std": float(rewards.std()),
        "reward/min": float(rewards.min()), "reward/max": float(rewards.max()),
        "grpo/loss": totals.get("loss", 0.0), "grpo/kl": totals.get("kl", 0.0), "grpo/clip_frac": totals.get("clip_frac", 0.0),
        "grpo/entropy": totals.get("entropy", 0.0) / tokens, "grpo/logp_gap": totals.get("gap", 0.0) / tokens,
        "grpo/grad_norm": totals["grad_norm"], "grpo/zero_std_groups": flat / len(table),
        **common_metrics(totals, ranks),
    }  # fmt: skip
