"""kill -9 of a whole job, launcher and ranks, at any moment: what is resumed ends as if nothing had happened."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from mpi_launch import kill_ranks
from runs import curves, es_mpi, journal, points, start_es_mpi, summary, toy_config

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

SECTIONS: dict[str, dict[str, Any]] = {
    "task": {"reward": "toy_reward:slow_closeness"},
    "checkpoint": {"every": 2},
    "eval": {"every": 2},
    "phases": {"warm": {"kind": "es", "updates": 8, "population": 7, "sigma": 0.3, "alpha": 0.3}},
}
LASTS_S = 2.5  # a little longer than such a run from its first file on


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = es_mpi(["train", toy_config(folder, **SECTIONS)])
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "run"


def kill_at(moment_s: float, command: list[str], ranks: int, run: Path) -> None:
    """Start a job and kill all of it `moment_s` after its run folder is there, or let it end before."""
    process = start_es_mpi(command, ranks)
    while not (run / "config.yaml").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(moment_s)  # the result may not depend on where that is
    kill_ranks(process)


def check_kill_of_all(number: int, folder: Path, undisturbed: Path) -> None:
    chance, run = random.Random(number), folder / "runs" / "run"
    kill_at(LASTS_S * chance.random(), ["train", str(toy_config(folder, **SECTIONS))], chance.randint(1, 3), run)
    if chance.random() < 0.3:  # and once more, on the way back
        kill_at(LASTS_S * chance.random(), ["resume", str(run)], chance.randint(1, 3), run)
    done = es_mpi(["resume", run], ranks=chance.randint(1, 3))
    assert done.returncode == 0, done.stderr
    steps = [[(r["step"], r["members"], r["digest"]) for r in journal(path)] for path in (run, undisturbed)]
    assert steps[0] == steps[1]
    assert summary(run)["digest"] == summary(undisturbed)["digest"]
    assert points(run) == points(undisturbed) == curves(run)


@pytest.mark.parametrize("number", range(8))
def test_kill_9_of_all_ranks_costs_no_bit_and_no_point(number, tmp_path, undisturbed):
    check_kill_of_all(number, tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100, 200))
def test_kill_9_of_all_ranks_a_hundred_times(number, tmp_path, undisturbed):
    check_kill_of_all(number, tmp_path, undisturbed)
