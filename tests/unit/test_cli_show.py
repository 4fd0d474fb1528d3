"""`es-mpi show` on run folders in every state, torn files included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from es_mpi.checkpoint.run_folder import RunFolder, write_json
from es_mpi.cli import main

CONFIG = """\
model: {path: models/tiny}
task: {name: arithmetic}
phases:
  warm: {kind: es, updates: 3}
  tune: {kind: es, updates: 4}
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "demo")
    run.create(CONFIG)
    return run


def shown(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["show", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}


def record(step: int, phase: str, failed: int = 0) -> str:
    members = [[i, None if i < failed else 0.5, "failed" if i < failed else "ok"] for i in range(4)]
    return json.dumps({"step": step, "phase": phase, "members": members}) + "\n"


def test_before_the_first_step(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(run, capsys)
    assert (lines["phase"], lines["step"], lines["reward"]) == ("before warm", "0 of 7", "none yet")
    assert (lines["checkpoint"], lines["resume"]) == ("none yet", f"es-mpi resume {run.path}")


def test_in_the_middle_with_torn_last_lines(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run.journal.write_text(
        "".join(record(i, "warm" if i < 4 else "tune", failed=2 if i == 2 else 0) for i in range(1, 5)) + '{"step": 5'
    )
    run.metrics.write_text('{"step":4,"reward/mean":0.25,"reward/std":0.125}\n{"step":4,"time/save":1.0}\n{"step":5,"rew')
    attempt = run.open_attempt()
    for rank in range(3):
        run.rank_log(attempt, rank).touch()
    lines = shown(run, capsys)
    assert (lines["phase"], lines["step"]) == ("tune", "4 of 7")
    assert lines["reward"] == "0.2500, 0.1250 over members"
    assert lines["failures"] == "step 2: 2 of 4 members"
    assert lines["resume"] == f"mpirun -n 3 es-mpi resume {run.path}"


def test_many_failures_are_cut_to_the_newest(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run.journal.write_text("".join(record(i, "warm", failed=1) for i in range(1, 8)))
    failures = shown(run, capsys)["failures"]
    assert failures.startswith("step 3: 1 of 4") and failures.endswith("step 7: 1 of 4 members (and in 2 steps before)")


def test_a_finished_run_needs_no_resume(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run.journal.write_text("".join(record(i, "tune") for i in range(1, 8)))
    write_json(run.summary, {"seconds": 90.0})
    lines = shown(run, capsys)
    assert lines["step"] == "7 of 7, finished; the last attempt took 2 min" and "resume" not in lines
