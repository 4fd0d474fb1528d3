"""The GRPO phase with an engine that samples by transformers: learning, resuming, ranks, and what stops it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from module_engine import Share, context, make_llama, run_ranks

from es_mpi.comm.single import SingleComm
from es_mpi.config.schema import GrpoPhase
from es_mpi.errors import EngineError
from es_mpi.phases import gradient, grpo

PHASE = {"kind": "grpo", "updates": 9, "group_size": 6, "lr": 3e-3, "compute": "float32", "microbatch": 5, "gap_alarm": 1e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llama(tmp_path_factory.mktemp("llama"))


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
    assert (tmp_path / gradient.REFERENCE).exists() == (ref == "phase_start")
    run = context(folder, SingleComm(10))
    run.engine.store.master[:] = stopped.run.engine.store.master
    resumed = grpo.Grpo(run, "tune", GrpoPhase(**{**PHASE, "ref": ref}), tmp_path)
    assert [resumed.step(i).record for i in (2, 3)] == wanted[2:]


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean"])
def test_ranks_share_a_batch_and_agree_with_one(folder: Path, aggregation: str) -> None:
    (alone, weights), *_ = run_ranks([opened(folder, aggregation=aggregation, minibatch=2)], 2)
    for size in (2, 3):
        together = run_ranks([opened(folder, aggregation=aggregation, minibatch=2) for _ in range(size)], 2)
        for reports, other in together:
            assert [r.record for r in reports] == [r.record for r in together[0][0]]
            assert reports[0].record["rewards"] == alone[0].record["rewards"]
            assert abs(other - weights).max() < 1e-4  # AdamW divides by gradients that differ in their last bits
            for tag in ("reward/mean", "grpo/loss", "grpo/entropy", "grpo/grad_norm", "grpo/kl", "diversity/distinct4"):
                assert reports[0].metrics[tag] == pytest.approx(alone[0].metrics[tag], rel=1e-4, abs=1e-7), tag


def test_several_passes_over_the_responses_are_off_policy_after_the_first(folder: Path) -> None:
    once, twice = (opened(folder, epochs=epochs, clip_low=1e-3, clip_high=1e-3) for epochs in (1, 2))
    one, two = once.step(0), twice.step(0)
    assert one.record["rewards"] == two.record["rewards"] and one.record["digest"] != two.record["digest"]
    assert one.metrics["grpo/clip_frac"] == 0.0 < two.metrics["grpo/clip_frac"]


def test_dynamic_sampling_replaces_groups_with_equal_rewards(folder: Path) -> None:
    def first(size: int, redraws: int) -> list[Any]:
        phases = [opened(folder, group_size=2, redraws=redraws) for _ in range(size)]
        for phase in phases:
            phase.run = context(folder, SingleComm(10), batch_size=3)
        return [reports[0] for reports, _ in run_ranks(phases, 1)]

    (plain,), (drawn,) = first(1, 0), first(1, 3)
    flat = [i for i, group in enumerate(plain.record["rewards"]) if len(set(group)) == 1]
    assert flat and "redrawn" not in plain.record
    assert 0 < drawn.record["redrawn"] <= 2  # two problems are not in the batch
    assert drawn.record["batch"] != plain.record["batch"]
    assert drawn.metrics["grpo/redrawn"] == drawn.record["redrawn"]
    for i, group in enumerate(plain.record["rewards"]):
        assert (drawn.record["rewards"][i] == group) or i in flat
    assert first(2, 3)[1].record == first(2, 3)[0].record
    assert first(2, 3)[0].record["rewards"] == drawn.record["rewards"]


def test_a_response_whose_grader_failed_counts_nowhere(folder: Path) -> None:
    report = opened(folder, grading=Share(broken=True)).step(0)
    rewards = report.record["rewards"]
    assert rewards[0][0] is None and sum(reward is None for group in rewards for reward in group) == 1
    assert math.isfinite(report.metrics["grpo/loss"]) and math.isfinite(report.metrics["reward/mean"])


def test_a_loss_that_is_not_finite_stops_with_the_batch_and_moves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = opened(folder)
    digest = phase.run.engine.store.digest()
    monkeypatch.setattr(grpo, "advantages", lambda rewards, **_: [math.inf] * len(rewards))
    with pytest.raises(gradient.NonFinite, match=f"update 4, batch {phase.run.batches.at(3).id}.*rank.* \\[0\\] is not finite"):
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
