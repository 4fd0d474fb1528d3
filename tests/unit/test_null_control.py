"""Random rewards move weights by the random walk's law, and their sparsity is that of a normal: test 1 of section 14.10."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from mpi_launch import REPO
from runs import es_mpi, journal, toy_config
from safetensors.numpy import load_file, save_file

from es_mpi.cli import main
from es_mpi.estimator import rank_of
from es_mpi.population import random_reward

PHASE = {"kind": "es", "updates": 12, "population": 8, "sigma": 0.05, "alpha": 0.02, "reward": "random"}


def widen_toy(folder: Path) -> None:
    """Add a million weights that the toy's policy does not use, so that the law can be seen to a part in a thousand."""
    file = folder / "toy" / "model.safetensors"
    save_file({**load_file(file), "extra.weight": np.zeros((1000, 1000), np.float32)}, file)


def null_config(folder: Path, name: str = "null", **phase: object) -> Path:
    return toy_config(folder, name, phases={"warm": {**PHASE, **phase}}, monitor={"console": "off", "tensorboard": False})


def check_law(found: dict, std: float) -> None:
    assert found["law"]["std"] == pytest.approx(std, rel=1e-6)
    assert found["law"]["ratio"] == pytest.approx(1.0, abs=0.01)
    for row in found["sparsity"]:
        assert row["model"]["sparsity"] == pytest.approx(row["gaussian"]["sparsity"], abs=0.004)
        assert row["model"]["kept"] == pytest.approx(row["gaussian"]["kept"], abs=0.004)


def test_a_null_run_is_a_random_walk(tmp_path, capsys):
    config = null_config(tmp_path, generate=False)
    widen_toy(tmp_path)
    assert main(["train", str(config)]) == 0
    capsys.readouterr()
    assert main(["drift", str(tmp_path / "toy"), str(tmp_path / "runs" / "null"), "--json"]) == 0
    check_law(json.loads(capsys.readouterr().out), 0.02 * math.sqrt(12 / 8))


@pytest.mark.slow
def test_a_null_run_on_the_real_engine_is_a_random_walk(tiny_dir, tmp_path):
    """The whole method, responses included: tiny has .3 M weights, so the law is seen to .13 %."""
    from transformers import AutoModelForCausalLM

    changes = [f"model.path={tiny_dir}", f"run.dir={tmp_path}", "run.name=random", "task.batch_size=4", "eval.problems=4",
               "eval.samples=0", "eval.before=false", "phases.warm.updates=20", "phases.warm.population=8",
               "phases.warm.reward=random"]  # fmt: skip
    done = es_mpi(["train", REPO / "configs" / "tiny.yaml", *changes], timeout=600)
    assert done.returncode == 0, done.stderr
    drift = es_mpi(["drift", tiny_dir, tmp_path / "random", "--json"])
    check_law(json.loads(drift.stdout), 1e-2 * math.sqrt(20 / 8))
    pruned = es_mpi(["prune", tiny_dir, tmp_path / "random", "--sparsity", "0.9", "--out", tmp_path / "pruned"])
    assert pruned.returncode == 0, pruned.stderr
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "pruned")
    base = AutoModelForCausalLM.from_pretrained(tiny_dir).state_dict()
    moved = [float((tensor != base[name]).float().mean()) for name, tensor in model.state_dict().items()]
    assert all(0.02 < share < 0.2 for share in moved), moved


def test_skipping_the_responses_changes_no_bit(tmp_path):
    """`generate` only saves time: the journals agree in everything, and ranks share the work as ever."""
    for name, generate in (("with", True), ("without", False)):
        assert main(["train", str(null_config(tmp_path, name, generate=generate))]) == 0
    assert es_mpi(["train", null_config(tmp_path, "ranks")], ranks=2).returncode == 0
    first, *others = (journal(tmp_path / "runs" / name) for name in ("with", "without", "ranks"))
    assert all(other == first for other in others)


def test_the_metrics_of_a_null_run_without_responses_are_whole(tmp_path):
    assert main(["train", str(null_config(tmp_path, generate=False))]) == 0
    rows = [json.loads(line) for line in (tmp_path / "runs" / "null" / "metrics.jsonl").read_text().splitlines()]
    row = next(row for row in rows if row["step"] == 2)
    assert row["perf/overhead"] is None
    assert row["gen/tokens"] == 0
    assert row["es/distinct_rewards"] == pytest.approx(8)
    assert abs(row["es/update_cosine"]) < 0.2  # 650 weights: .04 standard error


def test_random_rewards_are_normal_and_independent():
    values = np.array([[random_reward(7, update, member) for member in range(200)] for update in range(50)])
    assert values.mean() == pytest.approx(0, abs=0.04)
    assert values.std() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(values[0], values[1])[0, 1]) < 0.3
    assert random_reward(7, 3, 5) == values[3, 5] != random_reward(8, 3, 5)


@pytest.mark.parametrize(
    ("changes", "responses"),
    [({}, "12 x 8 x 16"), ({"generate": False}, "12 x 0 x 16"), ({"reward": "task", "center": True}, "12 x 9 x 16")],
)
def test_check_counts_the_responses(tmp_path, capsys, changes, responses):
    assert main(["check", str(null_config(tmp_path, **changes))]) == 0
    assert f"{responses} =" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "task", "generate": False}, "phases.warm.generate: the task's reward needs responses"),
        ({"center": True}, "phases.warm.center: theta has no rank among random rewards"),
        ({"reward": "radnom"}, "phases.warm.reward"),
    ],
)
def test_what_makes_no_sense_together_is_refused(tmp_path, capsys, changes, words):
    assert main(["check", str(null_config(tmp_path, **changes))]) == 2
    assert words in capsys.readouterr().err


def test_the_centre_is_ranked_in_its_population(tmp_path):
    """Where sigma is next to nothing all members are the centre; elsewhere the rank is that among the journal's rewards."""
    for name, sigma in (("same", 1e-12), ("apart", 0.3)):
        config = null_config(tmp_path, name, reward="task", center=True, sigma=sigma, updates=4)
        assert es_mpi(["train", config], ranks=1 + (name == "apart")).returncode == 0
        rows = [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        steps = [row for row in rows if "reward/center" in row]
        assert len(steps) == 4
        for row, record in zip(steps, journal(tmp_path / "runs" / name), strict=True):
            rewards = [reward for _, reward, _ in record["members"]]
            assert len(rewards) == 8
            assert row["es/center_rank"] == rank_of(row["reward/center"], rewards)
            if name == "same":
                assert row["reward/center"] == rewards[0]
