"""GRPO phases on the real engine with the tiny model: learning, ranks, switches of phase, kill and resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mpi_launch import kill_ranks
from runs import engine_config, es_mpi, journal, start_es_mpi, summary, wait_for_steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

GRPO = {"kind": "grpo", "updates": 4, "group_size": 8, "lr": 3e-4, "minibatch": 16, "microbatch": 64, "compute": "float32"}
ES = {"kind": "es", "updates": 1, "population": 4, "sigma": 5e-3, "alpha": 1e-2}
CONFIG = {
    "model": {"dtype": "float32", "max_model_len": 64},
    "engine": {"threads": 1, "kv_cache_gib": 0.125, "max_num_seqs": 128},
    "task": {"name": "arithmetic", "batch_size": 31, "options": {"form": "plain"}},
    "sampling": {"max_tokens": 4},
    "pipeline": ["warm", "tune", "last"],
    "phases": {"warm": ES, "tune": GRPO, "last": ES},
    "eval": {"problems": 20, "samples": 2, "k": [1, 2]},
    "checkpoint": {"every": 2},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_dir: Path) -> Path:
    return engine_config(tmp_path_factory.mktemp("gradient phases"), tiny_dir, CONFIG)


@pytest.fixture(scope="module")
def whole(config: Path) -> Path:
    """A run on two ranks that nothing disturbed."""
    done = es_mpi(["train", config, "run.name=whole"], ranks=2, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return config.parent / "runs" / "whole"


def test_phases_follow_each_other_in_one_journal(whole: Path) -> None:
    records = journal(whole)
    assert [r["phase"] for r in records] == ["warm", "tune", "tune", "tune", "tune", "last"]
    assert [("terms" in r, "rewards" in r) for r in records] == [(r["phase"] != "tune", r["phase"] == "tune") for r in records]
    assert len({r["digest"] for r in records}) == len(records)
    assert len({r["batch"] for r in records}) == len(records)  # the order of the prompts goes on
    assert [len(group) for r in records[1:5] for group in r["rewards"]] == [8] * 31 * 4
    metrics = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    gaps = [row["grpo/logp_gap"] for row in metrics if "grpo/logp_gap" in row]
    assert len(gaps) == 4 and max(gaps) < 1e-4  # engine and trainer are the same policy, in float32
    assert all(row["grpo/grad_norm"] > 0 for row in metrics if "grpo/grad_norm" in row)
    assert summary(whole)["digest"] == records[-1]["digest"]


def test_a_checkpoint_within_a_phase_holds_the_optimiser_and_the_reference(whole: Path) -> None:
    held = whole / "checkpoints" / "step_000004"
    assert {"optimiser.pt", "reference.f32", "master.f32", "model.safetensors"} <= {path.name for path in held.iterdir()}
    assert not (whole / "checkpoints" / "step_000006" / "optimiser.pt").exists()


@pytest.mark.parametrize("steps", [1, 4])
def test_kill_9_in_a_phase_and_at_its_start_then_resume_gives_the_same_numbers(config: Path, whole: Path, steps: int) -> None:
    run = config.parent / "runs" / f"killed{steps}"
    process = start_es_mpi(["train", config, f"run.name={run.name}"], 2)
    wait_for_steps(run, steps, process, deadline=120)
    kill_ranks(process)
    done = es_mpi(["resume", run], ranks=2, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert journal(run) == journal(whole)
    assert summary(run)["evaluation"] == summary(whole)["evaluation"]


def test_one_rank_agrees_with_two_to_rounding_at_the_first_gradient_step(config: Path, whole: Path) -> None:
    done = es_mpi(["train", config, "run.name=one", "phases.tune.updates=1", "pipeline=[warm,tune]"], timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = journal(config.parent / "runs" / "one"), journal(whole)
    assert one[0] == two[0]
    assert one[1]["rewards"] == two[1]["rewards"]


def test_replay_across_a_gradient_phase_starts_at_its_checkpoint(whole: Path, tmp_path: Path) -> None:
    done = es_mpi(["replay", whole, "--step", "6", "--out", tmp_path / "six"])
    assert done.returncode == 0 and journal(whole)[5]["digest"] in done.stdout
    refused = es_mpi(["replay", whole, "--step", "3", "--out", tmp_path / "three"])
    assert refused.returncode == 2 and "gradient phase" in refused.stderr
    assert not (tmp_path / "three").exists()
