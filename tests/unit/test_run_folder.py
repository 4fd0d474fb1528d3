"""The run folder: made once, whole or not at all."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from es_mpi.checkpoint.files import replacing
from es_mpi.checkpoint.run_folder import RunFolder, write_json
from es_mpi.errors import UsageError


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "demo")
    run.create("run: {name: demo}\n")
    return run


def test_the_layout_is_the_contract(run: RunFolder) -> None:
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "config.yaml", "eval", "logs", "tb"]
    assert run.config.read_text() == "run: {name: demo}\n"
    assert (run.journal.name, run.metrics.name, run.summary.name) == ("journal.jsonl", "metrics.jsonl", "summary.json")
    run.require()


def test_an_existing_folder_is_refused(run: RunFolder) -> None:
    with pytest.raises(UsageError, match=r"run\.name[\s\S]*es-mpi resume"):
        run.create("other: 1\n")
    assert run.config.read_text() == "run: {name: demo}\n"


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"run\.name"):
        RunFolder(tmp_path / "demo").create("")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # a folder without write permission would not stop root
    with pytest.raises(UsageError, match=r"run\.dir: the run folder cannot be made"):
        RunFolder(tmp_path / "file" / "demo").create("")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UsageError, match="No space left"):
        RunFolder(tmp_path / "demo").create("")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        RunFolder(tmp_path).require()


def test_attempts_are_numbered(run: RunFolder) -> None:
    assert [run.open_attempt() for _ in range(3)] == [1, 2, 3]
    assert sorted(path.name for path in run.logs.iterdir()) == ["attempt_1", "attempt_2", "attempt_3", "latest"]
    log = run.rank_log(3, 1)
    log.write_text("hello")
    assert (run.logs / "latest" / "rank_1.log").read_text() == "hello"


def test_samples_are_gzipped_lines(run: RunFolder) -> None:
    rows = [{"id": "a", "response": "3 \ud800\n"}, {"id": "b", "response": "é"}]
    path = run.write_samples("largest", 100, iter(rows))
    assert path == run.path / "eval" / "largest" / "step_000100.jsonl.gz"
    first = path.read_bytes()
    assert [json.loads(line) for line in gzip.decompress(first).splitlines()] == rows
    assert first[4:8] == bytes(4)  # no time stamp, so that equal rows make equal files
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_samples_that_break_off_leave_the_old_ones(run: RunFolder) -> None:
    path = run.write_samples("largest", 100, [{"id": "a"}])
    with pytest.raises(ValueError):
        run.write_samples("largest", 100, [{"id": "b"}, {"reward": math.nan}])
    assert json.loads(gzip.decompress(path.read_bytes())) == {"id": "a"}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_json_is_replaced_at_once(run: RunFolder) -> None:
    write_json(run.summary, {"accuracy": 0.1})
    with pytest.raises(ValueError):
        write_json(run.summary, {"accuracy": math.inf})
    with pytest.raises(KeyboardInterrupt), replacing(run.summary) as file:
        file.write(b"{")
        raise KeyboardInterrupt
    assert json.loads(run.summary.read_text()) == {"accuracy": 0.1}
    assert not list(run.path.glob(".*"))


def test_kill_9_while_replacing(run: RunFolder) -> None:
    write_json(run.summary, {"old": 1})
    code = """
import os, signal, sys
from pathlib import Path
from es_mpi.checkpoint.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"{")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code, str(run.summary)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert json.loads(run.summary.read_text()) == {"old": 1}
    write_json(run.summary, {"new": 2})
    assert not list(run.path.glob(".*"))


def test_a_job_that_loses_the_race_for_a_name_leaves_the_winner_alone(tmp_path, monkeypatch):
    winner, loser = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    winner.create("run: {}\n")
    monkeypatch.setattr(RunFolder, "refuse_existing", lambda self: None)  # it looked a moment too early
    with pytest.raises(UsageError):
        loser.create("run: {name: other}\n")
    assert winner.config.read_text() == "run: {}\n"
