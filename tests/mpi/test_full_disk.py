"""A disk that refuses, at each write of a run: exit code 75 or a warning, and a resumed run that lacks nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import curves, es_mpi, journal, points, start_es_mpi, summary, toy_config, wait_for_steps

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

SECTIONS: dict[str, dict[str, Any]] = {"checkpoint": {"every": 2}, "eval": {"every": 2}}
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = es_mpi(["train", toy_config(folder, **SECTIONS)])
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "run"


@pytest.fixture
def unfinished(undisturbed: Path, tmp_path: Path) -> Path:
    """That run as a kill within its last step would leave it."""
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run, symlinks=True)
    (run / "summary.json").unlink()
    (run / "eval" / "arithmetic" / "step_000006.jsonl.gz").unlink()
    shutil.rmtree(run / "checkpoints" / "step_000006")
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(b"".join(lines[:5]))
    return run


def ends_like(run: Path, undisturbed: Path) -> bool:
    assert [(r["members"], r["digest"]) for r in journal(run)] == [(r["members"], r["digest"]) for r in journal(undisturbed)]
    return summary(run)["digest"] == summary(undisturbed)["digest"] and points(run) == points(undisturbed) == curves(run)


@pytest.mark.parametrize("name", [".summary.json.tmp", "eval/arithmetic/.step_000006.jsonl.gz.tmp", ".config.yaml.tmp"])
def test_a_file_that_does_not_fit_is_named_and_resume_finishes(name: str, unfinished: Path, undisturbed: Path) -> None:
    (unfinished / name).symlink_to(FULL)
    refused = es_mpi(["resume", unfinished], ranks=2)
    assert refused.returncode == 75, refused.stderr
    assert "No space left on device" in refused.stderr and "es-mpi resume" in refused.stderr
    (unfinished / name).unlink(missing_ok=True)
    done = es_mpi(["resume", unfinished])
    assert done.returncode == 0 and ends_like(unfinished, undisturbed), done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB of which all but a little can be taken away."""
    disk = tmp_path / "runs"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=False).returncode:
        pytest.skip("a small disk needs root and mount")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_disk_that_fills_up_under_a_run_costs_no_recorded_step(steps: int, tmp_path, small_disk, undisturbed) -> None:
    config = toy_config(tmp_path, **SECTIONS, task={"reward": "toy_reward:slow_closeness"})
    process = start_es_mpi(["train", str(config)], 2)
    wait_for_steps(small_disk / "run", steps, process)
    ballast = small_disk / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=4k"], check=False, capture_output=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75 and "No space left on device" in err, err
    recorded = journal(small_disk / "run")
    ballast.unlink()
    done = es_mpi(["resume", small_disk / "run"], ranks=2)
    assert done.returncode == 0, done.stderr
    assert journal(small_disk / "run")[: len(recorded)] == recorded
    assert summary(small_disk / "run")["digest"] == summary(undisturbed)["digest"]


def test_a_read_only_run_folder_is_refused_by_name(tmp_path, small_disk) -> None:
    assert es_mpi(["train", toy_config(tmp_path, **SECTIONS)]).returncode == 0
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = es_mpi(["resume", small_disk / "run"], ranks=2)
    assert refused.returncode == 2 and "Read-only file system" in refused.stderr and "run.dir" in refused.stderr
