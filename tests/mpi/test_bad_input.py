"""Bad input to `es-mpi train`: exit code 2, the key by name, and nothing written, all within one process.

Faults that need a launcher stand at the end and use a real one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import yaml
from mpi_launch import REPO, rank_env, run_ranks
from runs import TESTS_ON_PATH, es_mpi, toy_config
from small_models import two_layers, write_model

from es_mpi.cli import main

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(120)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return toy_config(tmp_path)


def refused(config: Path, capsys: pytest.CaptureFixture[str], *overrides: str) -> str:
    """The message of a train that must fail before it writes anything."""
    before = sorted(config.parent.rglob("*"))
    assert main(["train", str(config), *overrides]) == 2
    out, err = capsys.readouterr()
    assert sorted(config.parent.rglob("*")) == before and not out
    assert err.startswith("es-mpi: ") and "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("phases.warm.popluation=8", "did you mean 'population'?"),
        ("phases.warm.sigma=0", "phases.warm.sigma"),
        ("phases.warm.sigma=-1e-3", "phases.warm.sigma"),
        ("phases.warm.sigma=.nan", "phases.warm.sigma"),
        ("phases.warm.alpha=.inf", "phases.warm.alpha"),
        ("phases.warm.population=1", "phases.warm.population"),
        ("task.batch_size=5000", "task.batch_size"),
        ("model.path=models/none", "model.path"),
        ("model.dtype=float8", "model.dtype"),
        ("task.reward=boxed", "task.reward"),
        ("task.name=gsm9k", "task.name"),
        ("eval.k=[16]", "eval.k"),
    ],
)
def test_a_bad_value_names_its_key(config, capsys, override, says):
    assert says in refused(config, capsys, override)


def test_an_odd_antithetic_population(config, capsys):
    says = refused(config, capsys, "phases.warm.estimator=antithetic", "phases.warm.population=7")
    assert "phases.warm.population" in says and "even" in says


def test_a_folder_without_weights(config, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    assert "no weights" in refused(config, capsys, f"model.path={tmp_path / 'empty'}")
    broken = two_layers(tmp_path / "torn") / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-4])
    assert "model.safetensors" in refused(config, capsys, f"model.path={tmp_path / 'torn'}")


def test_a_quantised_model(config, capsys, tmp_path):
    announced = write_model(tmp_path / "a", {"w": ("F32", np.ones(4))}, quantization_config={"quant_method": "gptq"})
    assert "quantised" in refused(config, capsys, f"model.path={announced}")
    stored = write_model(tmp_path / "b", {"w": ("I8", np.ones(4))})
    assert "quantised" in refused(config, capsys, f"model.path={stored}")


def test_data_that_is_missing_empty_or_no_json(config, capsys, tmp_path):
    data, heldout, whole = tmp_path / "data.jsonl", tmp_path / "heldout.jsonl", '{"question": "1+1?", "answer": "2"}\n'
    heldout.write_text(whole)
    task = {"name": "gsm8k", "train": str(data), "heldout": str(heldout), "batch_size": 1}
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "task": task}))
    assert "task.train" in refused(config, capsys)
    for text, says in [
        ("", "task.train"),
        (whole + whole + whole[:-4] + "\n", "line 3"),
        (whole + '{"question": "1+1?"}\n', "line 2"),
        (whole + "[1]\n", "line 2"),
    ]:
        data.write_text(text)
        assert says in refused(config, capsys)


def test_a_reward_that_breaks_is_met_on_its_trial(config, capsys):
    for name, says in [("always_raises", "RuntimeError: this grader is broken"), ("returns_text", "TypeError")]:
        said = refused(config, capsys, f"task.reward=toy_reward:{name}")
        assert says in said and "task.reward" in said and ", line " in said
        assert "returns a number, or es_mpi.types.Grade" in said
    assert "toy_reward.py, line" in refused(config, capsys, "task.reward=toy_reward:always_raises")


def test_a_reference_answer_that_its_reward_rejects(config, capsys, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"question": "1+1?", "answer": "2"}\n{"id": "b", "question": "1+1?", "answer": "two"}\n')
    task = {"name": "math", "train": str(data), "heldout": str(data), "batch_size": 1, "reward": "last_number"}
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "task": task}))
    says = refused(config, capsys)
    assert "rejects 1 of 2 reference answers" in says and "b: 'two'" in says and "grading.bad_answers=drop" in says


def test_a_prompt_that_is_too_long_is_named_by_its_id(config, capsys):
    says = refused(config, capsys, "model.max_model_len=5")
    assert "arithmetic-" in says and "model.max_model_len" in says


def test_an_existing_run_folder_is_left_alone(config, capsys, tmp_path):
    (tmp_path / "runs" / "run").mkdir(parents=True)
    (tmp_path / "runs" / "run" / "precious").write_text("data")
    says = refused(config, capsys)
    assert "run.name" in says and "es-mpi resume" in says


def test_no_disk_space_for_a_checkpoint(config, capsys, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 100))
    says = refused(config, capsys)
    assert "run.dir" in says and "100" in says


def test_a_config_that_is_no_yaml(capsys, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("phases: {warm: [")
    assert "bad.yaml" in refused(path, capsys)
    path.write_text(yaml.safe_dump({"model": {"path": "x"}}))
    assert "task" in refused(path, capsys)


def test_a_launcher_that_made_singletons_stops_with_a_hint(config, tmp_path):
    """Two processes that Slurm calls ranks 0 and 1, while MPI sees two jobs of one: what --mpi=none or pmi2 makes."""
    before = sorted(tmp_path.rglob("*"))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "es_mpi", "train", config], cwd=REPO, text=True, stderr=subprocess.PIPE,
            env=rank_env({"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": str(rank)}),
        )
        for rank in (0, 1)
    ]
    says = [process.communicate(timeout=60)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [2, 2]
    assert "--mpi=pmix" in says[0] and "--mpi=pmix" not in says[1], says
    assert sorted(tmp_path.rglob("*")) == before


def test_two_ranks_say_it_once(config, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = es_mpi(["train", config, "phases.warm.sigma=0"], ranks=2)
    assert done.returncode == 2 and done.stderr.count("phases.warm.sigma") == 1
    assert sorted(tmp_path.rglob("*")) == before


def train_apart(folder: Path, *overrides: str, command: str = "train") -> subprocess.CompletedProcess[str]:
    """One job whose rank r was given only the r-th override, as when nodes see different files."""
    program = folder / "apart.py"
    program.write_text(
        "import os, sys\nfrom es_mpi.cli import main\n"
        f"override = {overrides!r}[int(os.environ['OMPI_COMM_WORLD_RANK'])]\n"
        f"sys.exit(main([{command!r}, {str(toy_config(folder))!r}, override]))\n"
    )
    return run_ranks(len(overrides), [program], 60, TESTS_ON_PATH)


def test_what_only_one_rank_meets_stops_all_and_names_it(tmp_path):
    done = train_apart(tmp_path, "run.seed=0", "model.path=models/none")
    assert done.returncode == 2 and "rank 1" in done.stderr and "models/none" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("key", ["phases.warm.population", "checkpoint.every"])
def test_ranks_with_different_configs_stop_and_name_the_field(tmp_path, key):
    done = train_apart(tmp_path, f"{key}=3", f"{key}=5")
    assert done.returncode == 2
    assert key in done.stderr and "= 3" in done.stderr and "= 5" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_doctor_with_a_config_checks_what_a_start_does_on_all_ranks_and_writes_nothing(config, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = es_mpi(["doctor", config], ranks=2)
    assert done.returncode == 0 and done.stdout.count("2 rank(s) are ready to train") == 1, done.stderr
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "toy", other)
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    apart = train_apart(tmp_path, "run.seed=0", f"model.path={other}", command="doctor")
    assert apart.returncode == 2 and "model.path" in apart.stderr and "model file contents = " in apart.stderr
    assert {path.name for path in tmp_path.rglob("*")} - {path.name for path in before} == {"apart.py", "other"}
