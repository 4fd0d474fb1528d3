"""`es-mpi eval` as a user runs it, alone and on ranks, on an engine that takes no time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import es_mpi, toy_config

from es_mpi.evaluation.folder import read_evaluation

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = toy_config(tmp_path_factory.mktemp("eval"))
    done = es_mpi(["train", config])
    assert done.returncode == 0, done.stderr
    return config


def evaluate(config: Path, out: Path, *words: str, ranks: int = 1) -> dict[str, object]:
    done = es_mpi(["eval", *words, "--out", out], ranks=ranks)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads((out / "results.json").read_text())
    return found


def test_any_number_of_ranks_gives_the_same_rows(config: Path, tmp_path: Path) -> None:
    run = str(config.parent / "runs" / "run")
    found = [evaluate(config, tmp_path / str(n), run, "--samples", "3", ranks=n) for n in (1, 2, 3)]
    rows = [read_evaluation(tmp_path / str(n)).tasks["arithmetic"].rows for n in (1, 2, 3)]
    assert rows[0] == rows[1] == rows[2] and len(rows[0]) == 20 * 4
    assert found[0]["tasks"] == found[1]["tasks"] == found[2]["tasks"]
    assert [one["ranks"] for one in found] == [1, 2, 3]


def test_any_step_of_a_run_and_its_base_model(config: Path, tmp_path: Path) -> None:
    run = config.parent / "runs" / "run"
    last = evaluate(config, tmp_path / "last", str(run))
    first = evaluate(config, tmp_path / "first", str(run), "--step", "0")
    middle = evaluate(config, tmp_path / "middle", str(run), "--step", "3")
    model = ["--config", str(config)]
    base = evaluate(config, tmp_path / "base", str(config.parent / "toy"), *model)
    assert (first["step"], middle["step"], last["step"]) == (0, 3, 6)
    assert len({first["digest"], middle["digest"], last["digest"]}) == 3
    assert base["tasks"] == first["tasks"] and base["step"] is None
    assert read_evaluation(run, 6).tasks["arithmetic"].rows == read_evaluation(tmp_path / "last").tasks["arithmetic"].rows


def test_what_cannot_be_is_refused_and_nothing_is_written(config: Path, tmp_path: Path) -> None:
    run, toy, out = str(config.parent / "runs" / "run"), str(config.parent / "toy"), str(tmp_path / "out")
    for words, said in (
        ([run, "--step", "7"], "no such step"),
        ([toy, "--step", "1", "--config", str(config)], "only a run has steps"),
        ([toy], "no task to evaluate on"),
        ([toy, "--tasks", "arithmetik"], "arithmetic"),
        ([run, "--config", str(config)], "a run has a config of its own"),
        ([run, "--samples", "2", "--k", "4"], "at least K samples"),
        ([run, "--data", "arithmetic"], "TASK=FILE"),
        ([run, "--data", "gsm8k=x"], "not a task of the evaluation"),
        ([run, "--tasks", "gsm8k", "--data", f"gsm8k={tmp_path}/none.jsonl"], "none.jsonl"),
    ):
        done = es_mpi(["eval", *words, "--out", out])
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert not Path(out).exists()
    done = es_mpi(["eval", run, "--out", str(tmp_path)])
    assert done.returncode == 2 and "the output folder exists" in done.stderr
