"""The GRPO phase with an engine that samples by transformers: learning, resuming, ranks, and what stops it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from thread_comm import run_threads

from es_mpi.comm.port import Comm
from es_mpi.comm.single import SingleComm
from es_mpi.comm.torch_group import TorchGroup
from es_mpi.config.schema import GrpoPhase
from es_mpi.errors import EngineError
from es_mpi.gradient.trainer import load_module
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.phases import grpo
from es_mpi.phases.context import RunContext
from es_mpi.tasks.batches import Batches
from es_mpi.types import Completion, Grade, Member, Problem, Prompt, Sampling, Verdict

LENGTH, SYMBOLS, WANTED = 4, 12, 7
PHASE = {"kind": "grpo", "updates": 9, "group_size": 6, "lr": 3e-3, "compute": "float32", "microbatch": 5, "gap_alarm": 1e-3}


@dataclass
class ModuleEngine:
    """Samples token by token from a copy of the master."""

    store: MasterStore
    version: int = 0
    notes: Sequence[str] = ()
    copy: Any = field(init=False)

    def __post_init__(self) -> None:
        self.copy = self.store.master.copy()
        self.module = load_module(self.store.layout, self.copy, "cpu")

    def load(self, member: Member | None, sigma: float = 0.0) -> int:
        self.copy[:] = self.store.master
        self.version += 1
        return self.version

    def drop_caches(self) -> None: ...

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        return [self._respond(prompt, sampling, seed) for prompt, seed in zip(prompts, seeds, strict=True)]

    def _respond(self, prompt: Prompt, sampling: Sampling, seed: int) -> Completion:
        generator, tokens, logprobs = torch.Generator().manual_seed(seed), list(prompt.token_ids), []
        for _ in range(1 + seed % LENGTH):  # unequal lengths
            log_probs = (self.module(torch.tensor([tokens])).logits[0, -1] / sampling.temperature).log_softmax(-1)
            tokens.append(int(torch.multinomial(log_probs.exp(), 1, generator=generator)))
            logprobs.append(float(log_probs[tokens[-1]]))
        response = tuple(tokens[len(prompt.token_ids) :])
        text = " ".join(map(str, response))
        return Completion(prompt.id, text, response, False, self.version, tuple(logprobs))

    def close(self) -> None: ...


@dataclass
class Share:
    """Grades by the share of wanted symbols; `broken` fails on the first response of every batch."""

    broken: bool = False

    def submit(self, items: Sequence[Any]) -> Callable[[], list[Grade]]:
        def grade(text: str) -> Grade:
            words = text.split()
            return Grade(Verdict.RIGHT, words.count(str(WANTED)) / len(words))

        grades = [grade(item.response) for item in items]
        return lambda: [Grade(Verdict.ERROR, math.nan), *grades[1:]] if self.broken else grades


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    out = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=SYMBOLS, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model, generator = LlamaForCausalLM(config), torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    model.save_pretrained(out)
    return out


def context(folder: Path, comm: Comm, grading: Share | None = None) -> RunContext:
    problems = [Problem(str(i), "?", "!") for i in range(5)]
    prompts = [Prompt(str(i), (3, 4 + i, *range(i))) for i in range(5)]
    batches = Batches(problems, prompts, batch_size=5, run_seed=1)
    engine = ModuleEngine(MasterStore(read_layout(folder)))
    return RunContext(1, comm, engine, batches, grading or Share(), Sampling(0.0, 1.0, LENGTH))  # type: ignore[arg-type]


def opened(folder: Path, resume_from: Path | None = None, grading: Share | None = None, **changes: Any) -> grpo.Grpo:
    return grpo.Grpo(context(folder, SingleComm(10), grading), "tune", GrpoPhase(**{**PHASE, **changes}), resume_from)


def test_it_learns_and_its_curves_say_so(folder: Path) -> None:
    phase = opened(folder, minibatch=3)
    reports = [phase.step(i) for i in range(30)]
    first, last = reports[0].metrics, reports[-1].metrics
    assert sum(r.metrics["reward/mean"] for r in reports[-5:]) / 5 > first["reward/mean"] + 0.3
    assert last["grpo/kl"] > first["grpo/kl"] and last["grpo/entropy"] < first["grpo/entropy"]
    assert first["grpo/logp_gap"] < 1e-5 and not reports[0].warnings
    assert len({r.record["digest"] for r in reports}) == 30


@pytest.mark.parametrize(("minibatch", "clips"), [(None, False), (1, True)])
def test_only_steps_after_the_first_of_an_update_are_off_policy(folder: Path, minibatch: int | None, clips: bool) -> None:
    report = opened(folder, minibatch=minibatch, clip_low=1e-3, clip_high=1e-3).step(0)
    assert (report.metrics["grpo/clip_frac"] > 0.0) == clips


@pytest.mark.parametrize("ref", ["phase_start", "base"])
def test_a_resumed_phase_makes_the_same_steps(folder: Path, tmp_path: Path, ref: str) -> None:
    straight = opened(folder, ref=ref)
    wanted = [straight.step(i).record for i in range(4)]
    stopped = opened(folder, ref=ref)
    assert [stopped.step(i).record for i in range(2)] == wanted[:2]
    stopped.save(tmp_path)
    assert (tmp_path / grpo.REFERENCE).exists() == (ref == "phase_start")
    run = context(folder, SingleComm(10))
    run.engine.store.master[:] = stopped.run.engine.store.master
    resumed = grpo.Grpo(run, "tune", GrpoPhase(**{**PHASE, "ref": ref}), tmp_path)
    assert [resumed.step(i).record for i in (2, 3)] == wanted[2:]


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean"])
def test_ranks_share_a_batch_and_agree_with_one(folder: Path, aggregation: str) -> None:
    def steps(size: int) -> list[Any]:
        phases = [
            opened(folder, aggregation=aggregation, minibatch=2) for _ in range(size)
        ]  # not in threads: transformers patches

        def program(comm: Comm) -> tuple[Any, Any]:
            comm.hosts = ["here"] * comm.size
            phase = phases[comm.rank]
            phase.run = replace(phase.run, comm=comm)
            phase.group = phase.trainer.group = TorchGroup(comm, "cpu")
            reports = [phase.step(i) for i in range(2)]
            phase.close()
            return reports, phase.run.engine.store.master

        found = run_threads(size, program)
        assert not [result for result in found if isinstance(result, BaseException)], found
        return found

    (alone, weights), *_ = steps(1)
    for size in (2, 3):
        together = steps(size)
        for reports, other in together:
            assert [r.record for r in reports] == [r.record for r in together[0][0]]
            assert reports[0].record["rewards"] == alone[0].record["rewards"]
            assert abs(other - weights).max() < 1e-4  # AdamW divides by gradients that differ in their last bits
            for tag in ("reward/mean", "grpo/loss", "grpo/entropy", "grpo/grad_norm", "grpo/kl", "gen/mean_length"):
                assert reports[0].metrics[tag] == pytest.approx(alone[0].metrics[tag], rel=1e-4, abs=1e-7), tag


def test_a_response_whose_grader_failed_counts_nowhere(folder: Path) -> None:
    report = opened(folder, grading=Share(broken=True)).step(0)
    rewards = report.record["rewards"]
    assert rewards[0][0] is None and sum(reward is None for group in rewards for reward in group) == 1
    assert math.isfinite(report.metrics["grpo/loss"]) and math.isfinite(report.metrics["reward/mean"])


def test_a_loss_that_is_not_finite_stops_with_the_batch_and_moves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = opened(folder)
    digest = phase.run.engine.store.digest()
    monkeypatch.setattr(grpo, "advantages", lambda rewards, **_: [math.inf] * len(rewards))
    with pytest.raises(grpo.NonFinite, match=f"update 4, batch {phase.run.batches.at(3).id}.*rank.* \\[0\\] is not finite"):
        phase.step(3)
    assert phase.run.engine.store.digest() == digest


def test_responses_of_older_weights_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = opened(folder)
    monkeypatch.setattr(phase.run.engine, "load", lambda member: 99)
    with pytest.raises(EngineError, match="weights version 0, the weights are 99"):
        phase.step(0)


def test_a_gap_between_engine_and_trainer_is_warned_of(folder: Path) -> None:
    phase = opened(folder)
    phase.trainer.model.lm_head.weight.data.mul_(1.5)  # a view of the master: the engine does not see it before its next load
    phase.run.engine.load = lambda member: 0  # type: ignore[method-assign, attr-defined]
    assert "gap_alarm is 0.001" in phase.step(0).warnings[0]


def test_overlong_responses_lose_reward(folder: Path) -> None:
    plain, shaped = (opened(folder, overlong_buffer=buffer).step(0).record["rewards"] for buffer in (0, 2))
    losses = {round(a - b, 9) for mine, other in zip(plain, shaped, strict=True) for a, b in zip(mine, other, strict=True)}
    assert losses == {0.0, 0.5, 1.0}
