"""Checkpoint folders: whole or not there, verified before they are used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from es_mpi.checkpoint import folder
from es_mpi.checkpoint.folder import (
    CheckpointError,
    checkpoints,
    clean,
    find_newest,
    prune,
    require_space,
    write_checkpoint,
)
from es_mpi.errors import UsageError

WEIGHTS = bytes(range(256)) * 40

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from es_mpi.checkpoint.folder import write_checkpoint
def write(path):
    (path / "model.safetensors").write_bytes(bytes(5000))
    os.kill(os.getpid(), signal.SIGKILL)
write_checkpoint(Path(sys.argv[1]), 200, write, {})
"""


def _write_model(path: Path) -> None:
    (path / "model.safetensors").write_bytes(WEIGHTS)
    (path / "tokenizer").mkdir()
    (path / "tokenizer" / "vocab.json").write_text("{}")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    for step in (100, 200, 300):
        write_checkpoint(tmp_path, step, _write_model, {"phase": "warm", "digest": f"d{step}"})
    return tmp_path


def _steps(run_dir: Path) -> list[int]:
    return [checkpoint.step for checkpoint in checkpoints(run_dir)]


def _names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "checkpoints").iterdir())


def test_a_checkpoint_is_a_folder_with_a_manifest(run_dir: Path) -> None:
    path = run_dir / "checkpoints" / "step_000300"
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["step"] == 300
    assert manifest["meta"] == {"phase": "warm", "digest": "d300"}
    assert sorted(manifest["files"]) == ["model.safetensors", "tokenizer/vocab.json"]
    assert manifest["files"]["model.safetensors"] == {"bytes": 10240, "sha256": hashlib.sha256(WEIGHTS).hexdigest()}
    assert _names(run_dir) == ["step_000100", "step_000200", "step_000300"]


def test_newest_first(run_dir: Path) -> None:
    write_checkpoint(run_dir, 1_000_000, _write_model, {})
    assert _steps(run_dir) == [1_000_000, 300, 200, 100]
    newest, notes = find_newest(run_dir, at_most=10**6)
    assert newest is not None and newest.step == 1_000_000 and notes == []
    assert checkpoints(run_dir)[1].meta["digest"] == "d300"


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert find_newest(tmp_path, at_most=10**6) == (None, [])
    assert checkpoints(tmp_path) == [] and clean(tmp_path) == [] and prune(tmp_path, 1) == []


def _cut(path: Path) -> None:
    os.truncate(path / "model.safetensors", 5120)


def _flip(path: Path) -> None:
    with (path / "model.safetensors").open("r+b") as file:
        file.write(b"\x01")


def _lose_file(path: Path) -> None:
    (path / "tokenizer" / "vocab.json").unlink()


def _lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def _cut_manifest(path: Path) -> None:
    os.truncate(path / "manifest.json", 30)


def _empty_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("[]")


def _take_another(path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(path.with_name("step_000200"), path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_cut, "model.safetensors has 5,120 bytes, not 10,240"),
        (_flip, "the contents of model.safetensors differ"),
        (_lose_file, "vocab.json: No such file"),
        (_lose_manifest, "manifest.json: No such file"),
        (_cut_manifest, "does not read as a manifest"),
        (_empty_manifest, "does not read as a manifest"),
        (_take_another, "is that of step 200"),
    ],
)
def test_a_damaged_one_is_passed_over_and_named(run_dir: Path, damage, reason: str) -> None:
    damage(run_dir / "checkpoints" / "step_000300")
    newest, notes = find_newest(run_dir, at_most=10**6)
    assert newest is not None and newest.step == 200
    [note] = notes
    assert note.startswith("checkpoint step_000300 passed over: ") and reason in note


def test_contents_are_compared_only_on_request(run_dir: Path) -> None:
    _flip(run_dir / "checkpoints" / "step_000300")
    assert _steps(run_dir) == [300, 200, 100]
    newest, _ = find_newest(run_dir, at_most=10**6, verify=False)
    assert newest is not None and newest.step == 300


def test_all_damaged(run_dir: Path) -> None:
    for path in (run_dir / "checkpoints").iterdir():
        _cut(path)
    newest, notes = find_newest(run_dir, at_most=10**6)
    assert newest is None and len(notes) == 3


def test_an_older_folder_of_that_step_is_replaced(run_dir: Path) -> None:
    _cut(run_dir / "checkpoints" / "step_000300")
    write_checkpoint(run_dir, 300, _write_model, {"digest": "again"})
    newest, notes = find_newest(run_dir, at_most=10**6)
    assert newest is not None and newest.meta == {"digest": "again"} and notes == []
    assert _names(run_dir) == ["step_000100", "step_000200", "step_000300"]


def test_kill_9_while_writing(run_dir: Path) -> None:
    shutil.rmtree(run_dir / "checkpoints" / "step_000200")
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(run_dir)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert _steps(run_dir) == [300, 100]
    [leftover] = clean(run_dir)
    assert leftover.startswith(".step_000200.tmp-")
    assert _names(run_dir) == ["step_000100", "step_000300"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),  # as safetensors says it
    ],
)
def test_a_full_disk_leaves_nothing_and_names_the_bytes(run_dir: Path, error: Exception) -> None:
    def write(path: Path) -> None:
        (path / "model.safetensors").write_bytes(bytes(4321))
        raise error

    with pytest.raises(CheckpointError, match=r"step 400.*No space left[\s\S]*more than 4,321 bytes; [\d,]+ are free"):
        write_checkpoint(run_dir, 400, write, {})
    assert _names(run_dir) == ["step_000100", "step_000200", "step_000300"]


def test_any_other_error_passes_and_leaves_nothing(run_dir: Path) -> None:
    def write(path: Path) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        write_checkpoint(run_dir, 400, write, {})
    assert _names(run_dir) == ["step_000100", "step_000200", "step_000300"]


def test_the_manifest_is_written_last_and_everything_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def record_fsync(fd: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
        fsync(fd)

    def record_rename(self: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "rename", record_rename)
    write_checkpoint(tmp_path, 7, _write_model, {})
    temporary = f".step_000007.tmp-{os.getpid()}"
    assert events == [
        *("sync model.safetensors", "sync tokenizer", "sync vocab.json"),
        *("sync .manifest.json.tmp", f"sync {temporary}"),
        *("rename step_000007", "sync checkpoints"),
    ]


def test_prune_keeps_the_newest_whole_ones(run_dir: Path) -> None:
    write_checkpoint(run_dir, 50, _write_model, {})
    _cut(run_dir / "checkpoints" / "step_000200")
    assert prune(run_dir, 5) == []
    assert [path.name for path in prune(run_dir, 2)] == ["step_000050"]
    assert _names(run_dir) == ["step_000100", "step_000200", "step_000300"]
    assert [path.name for path in prune(run_dir, 1)] == ["step_000200", "step_000100"]
    assert prune(run_dir, 1) == []
    assert _names(run_dir) == ["step_000300"]


def test_prune_does_not_count_damaged_ones(run_dir: Path) -> None:
    _cut(run_dir / "checkpoints" / "step_000300")
    _cut(run_dir / "checkpoints" / "step_000200")
    assert prune(run_dir, 1) == []
    with pytest.raises(UsageError, match=r"checkpoint\.keep"):
        prune(run_dir, 0)


def test_space_is_asked_for_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(folder.shutil, "disk_usage", lambda path: usage)
    require_space(tmp_path, 1000, key="run.dir")
    with pytest.raises(UsageError, match=r"run\.dir: not enough room[\s\S]*1,000 bytes free[\s\S]*1,001 bytes"):
        require_space(tmp_path / "not" / "yet", 1001, key="run.dir")
    assert list(tmp_path.iterdir()) == []
