"""Runs of the real command line for tests: configs, and what a run folder says afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from mpi_launch import REPO, rank_env, run_ranks, start_ranks

TOY: dict[str, Any] = {
    "engine": {"kind": "toy", "threads": 1},
    "task": {"name": "arithmetic", "batch_size": 16, "options": {"form": "plain"}, "reward": "toy_reward:closeness"},
    "sampling": {"max_tokens": 1},
    "phases": {"warm": {"kind": "es", "updates": 6, "population": 7, "sigma": 0.3, "alpha": 0.3}},
    "eval": {"problems": 20, "samples": 2, "k": [1, 2]},
    "grading": {"workers": 1},
    "monitor": {"console": "plain"},
}


TESTS_ON_PATH = {"PYTHONPATH": f"{REPO / 'tests'}:{REPO}"}  # for rewards that tests define


def toy_config(folder: Path, name: str = "run", **sections: dict[str, Any]) -> Path:
    """A config file in `folder` for the toy engine; `sections` are laid over it."""
    from es_mpi.engine.toy import write_toy_model

    write_toy_model(folder / "toy")
    model = {"path": str(folder / "toy"), "dtype": "float32"}
    config = {**TOY, "run": {"name": name, "dir": str(folder / "runs")}, "model": model}
    for section, values in sections.items():
        config[section] = {**config.get(section, {}), **values}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def engine_config(folder: Path, model: Path, sections: dict[str, Any]) -> Path:
    """A config file in `folder` for the real engine on `model`; its runs are made in `folder`/runs."""
    run = {"name": "run", "dir": str(folder / "runs")}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**sections, "run": run, "model": {**sections["model"], "path": str(model)}}))
    return path


def es_mpi(args: Sequence[str | Path], *, ranks: int = 1, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """`es-mpi *args`, alone or on several ranks of a real launcher, with tests/ importable for rewards of tests."""
    command = ["-m", "es_mpi", *args]
    if ranks > 1:
        return run_ranks(ranks, command, timeout, TESTS_ON_PATH)
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=REPO, env=rank_env(TESTS_ON_PATH), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=timeout, check=False,
    )


def start_es_mpi(args: Sequence[str | Path], ranks: int, *mpirun_options: str) -> subprocess.Popen[str]:
    """The same, left running."""
    return start_ranks(ranks, ["-m", "es_mpi", *args], TESTS_ON_PATH, mpirun_options)


def wait_for_steps(run: Path, steps: int, process: subprocess.Popen[str], deadline: float = 60) -> None:
    """Return when the run's journal has `steps` lines."""
    end = time.monotonic() + deadline
    while not (run / "journal.jsonl").exists() or len((run / "journal.jsonl").read_bytes().splitlines()) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the run did not get there"
        time.sleep(0.01)


def journal(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def summary(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


LASTING = ("reward/", "es/", "eval/")  # tags that do not say how long something took, or came of a save


def points(run: Path) -> list[tuple[int, str]]:
    """(step, tag) of every such number in the metrics."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return sorted((row["step"], tag) for row in rows for tag in row if tag.startswith(LASTING))


def curves(run: Path) -> list[tuple[int, str]]:
    """(step, tag) of every point that TensorBoard shows of them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tb"), size_guidance={"scalars": 0}).Reload()
    return sorted((p.step, tag) for tag in events.Tags()["scalars"] if tag.startswith(LASTING) for p in events.Scalars(tag))
