"""Studies: what a grid stands for, how its runs are begun and continued, and what their table says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from runs import es_mpi, toy_config

from es_mpi.cli import main
from es_mpi.study.plan import read_study
from es_mpi.study.results import debiased_ema

POINTS = {
    "few": {"phases.warm.population": 4, "phases.warm.updates": 4},
    "many": {"phases.warm.population": 8, "phases.warm.updates": 2},
}


def write_study(folder: Path, **changes: object) -> Path:
    toy_config(folder, "base")
    study = {
        "name": "trial", "base": "base.yaml", "dir": str(folder / "runs"),
        "axes": {"budget": POINTS, "run.seed": [3, 4]}, **changes,
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return path


@pytest.fixture(autouse=True)
def rewards_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[1]}:{Path(__file__).parents[2]}")


def test_a_grid_is_every_point_with_the_first_seed_then_the_next(tmp_path):
    axes = {"phases.warm.sigma": [0.1, 0.2], "budget": POINTS, "run.seed": [3, 4]}
    study = read_study(write_study(tmp_path, axes=axes, set={"eval.samples": 1, "eval.k": [1]}))
    assert [(cell.point, cell.seed) for cell in study.cells[3:5]] == [("sigma=0.2 many", 3), ("sigma=0.1 few", 4)]
    assert study.cells[3].folder.path == tmp_path / "runs" / "trial" / "sigma=0.2_many_seed=3"
    config = study.cells[3].config
    assert (config.phases["warm"].sigma, config.phases["warm"].population, config.run.seed) == (0.2, 8, 3)
    assert {cell.config.eval.samples for cell in study.cells} == {1}
    assert {phase.updates * phase.population for cell in study.cells for phase in [cell.config.phases["warm"]]} == {16}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": {"phases.warm.popluation": [1]}}, "did you mean 'phases.warm.population'?"),
        ({"axes": {"budget": {"few": {"phases.wram.sigma": 1}}}}, "axes.budget.few: the base config has no key phases.wram"),
        ({"axes": {"phases.warm.sigma": []}}, "axes.phases.warm.sigma: is an empty axis"),
        ({"axes": {"budget": {"few": {}}}}, "axes.budget.few: sets nothing"),
        ({"axes": {"run.seed": [1, 2]}}, "axes: has no axis beside the seed"),
        ({"axes": {"budget": POINTS, "run.seed": [1, 1]}}, "not a list of seeds"),
        ({"axes": {"phases.warm.sigma": [0.1, -1]}}, "the point 'sigma=-1' is no valid config"),
        ({"axes": {"phases.warm.sigma": [0.1, 0.1]}}, "two points have the same name"),
        ({"axes": {"run.name": ["a"]}}, "run.name is set by the study"),
        ({"set": {"task.nmae": 1}}, "did you mean 'task.name'?"),
        ({"base": "none.yaml"}, "base: the base config does not load"),
        ({"reference": "fwe"}, "did you mean 'few'?"),
        ({"axis": {}}, "axis: unknown key"),
    ],
)
def test_bad_input_is_refused_by_name_and_nothing_is_written(tmp_path, capsys, changes, words):
    study = write_study(tmp_path, **changes)
    before = sorted(tmp_path.rglob("*"))
    assert main(["study", str(study)]) == 2
    assert words in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cell", "4"], "0 to 3"),
        (["--html", "x.html"], "goes with --table"),
        (["--table"], "no run of the study has finished"),
        (["--table", "--array"], "not allowed with"),
    ],
)
def test_what_the_command_refuses(tmp_path, capsys, words, says):
    assert main(["study", str(write_study(tmp_path)), *words]) == 2
    assert says in capsys.readouterr().err


def test_ranks_are_not_studies(tmp_path, capsys, monkeypatch):
    for variable, value in {"RANK": "0", "SIZE": "2", "LOCAL_RANK": "0", "LOCAL_SIZE": "2"}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{variable}", value)
    assert main(["study", str(write_study(tmp_path))]) == 2
    assert "--launcher" in capsys.readouterr().err


def test_an_array_has_a_task_a_run_and_is_a_script(tmp_path, capsys):
    assert main(["study", str(write_study(tmp_path)), "--array"]) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --array=0-3" in script and '--cell "$SLURM_ARRAY_TASK_ID"' in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_study_from_start_to_page(tmp_path, capsys):
    """One run alone, the others after it; a broken one is told and left; the table has what the runs' files say."""
    study = write_study(tmp_path)
    assert main(["study", str(study), "--cell", "1"]) == 0
    run = tmp_path / "runs" / "trial" / "many_seed=3"
    first = (run / "journal.jsonl").read_bytes()
    done = es_mpi(["study", study])
    assert done.returncode == 0, done.stderr
    assert "2/4" in done.stderr and f"{run}: finished" in done.stderr
    assert (run / "journal.jsonl").read_bytes() == first
    capsys.readouterr()
    assert main(["study", str(study), "--table", "--json", str(tmp_path / "t.json"), "--html", str(tmp_path / "t.html")]) == 0
    text, found = capsys.readouterr().out, json.loads((tmp_path / "t.json").read_text())
    assert "4 of 4 runs finished" in text and "minus base" in text
    assert found["names"] == ["base", "few", "many"]
    few = found["study"]["rows"][1]
    assert (few["updates"], few["responses"], few["seeds"]) == (4, 4 * 4 * 16, [3, 4])
    greedy = few["tasks"]["arithmetic"]["greedy"]
    assert len(greedy["seeds"]) == 2 and greedy["over_seeds"]["low"] <= greedy["mean"] <= greedy["over_seeds"]["high"]
    rewards = [json.loads(line).get("reward/mean") for line in (run / "metrics.jsonl").read_text().splitlines()]
    one, two = (reward for reward in rewards if reward is not None)
    assert found["study"]["rows"][2]["reward"]["seeds"][0] == pytest.approx((0.99 * one + two) / 1.99)
    assert '"layout"' in (tmp_path / "t.html").read_text()


def test_begun_runs_are_continued_and_those_of_another_study_refused(tmp_path):
    study = write_study(tmp_path)
    cell = read_study(study).cells[0]
    assert es_mpi(["train", tmp_path / "base.yaml", *cell.overrides]).returncode == 0
    (cell.folder.summary).unlink()
    lines = cell.folder.journal.read_bytes().splitlines(keepends=True)
    cell.folder.journal.write_bytes(b"".join(lines[:2]))
    done = es_mpi(["study", study, "--cell", "0"])
    assert done.returncode == 0, done.stderr
    assert "resume" in done.stderr
    assert cell.folder.journal.read_bytes() == b"".join(lines)
    changed = write_study(tmp_path, set={"phases.warm.alpha": 0.1})
    refused = es_mpi(["study", changed])
    assert refused.returncode == 2
    assert "phases.warm.alpha differ" in refused.stderr


def test_smoothing_is_debiased():
    """The worked values of the specification, 14.9."""
    assert debiased_ema([1, 0, 1], 0.99) == pytest.approx([1, 0.49748743719, 0.66667788963])
