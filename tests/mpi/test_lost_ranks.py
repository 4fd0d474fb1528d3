"""Ranks that die or stall in the middle of a run whose MPI reports deaths (Open MPI 5 with ULFM)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mpi_launch import kill_ranks, ranks_of
from runs import es_mpi, journal, points, start_es_mpi, summary, toy_config, wait_for_steps

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

RANKS, LIMIT_S = 3, 60
GONE_S = 10  # the launcher may end a moment before the ranks that it killed
PHASE = {"kind": "es", "updates": 8, "population": 7, "sigma": 0.3, "alpha": 0.3}
SECTIONS: dict[str, dict[str, Any]] = {
    "task": {"reward": "toy_reward:slow_closeness"},
    "checkpoint": {"every": 2},
    "eval": {"every": 2},
    "phases": {"warm": PHASE},
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = es_mpi(["train", toy_config(folder, **SECTIONS)])
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "run"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A run on three ranks that survives deaths; whatever is left of it at the end is killed."""
    config = toy_config(tmp_path, **SECTIONS, comm={"deadline_s": 5})
    process = start_es_mpi(["train", str(config)], RANKS, "--with-ft", "ulfm")
    wait_for_steps(tmp_path / "runs" / "run", 1, process)
    yield tmp_path / "runs" / "run", process
    if process.poll() is None:
        kill_ranks(process)


def check_kill_of_one(number: int, run: Path, process: subprocess.Popen[str], undisturbed: Path) -> None:
    chance = random.Random(number)
    ranks = ranks_of(process)
    victim = number % RANKS  # rank 0 too: it writes the journal
    wait_for_steps(run, chance.randrange(1, 6), process)
    time.sleep(chance.random() * 0.15)  # anywhere within an update, an evaluation or a save; the result may not depend on where
    ranks[victim].kill()
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    assert f"rank {victim} on" in out and "died; the run goes on with 2 rank(s)" in out
    steps = [[(r["step"], r["members"], r["digest"]) for r in journal(path)] for path in (run, undisturbed)]
    assert steps[0] == steps[1]
    assert points(run) == points(undisturbed)
    assert summary(run)["digest"] == summary(undisturbed)["digest"]
    assert not psutil.wait_procs(ranks, timeout=GONE_S)[1]


@pytest.mark.parametrize("number", range(12))
def test_kill_9_of_one_rank_costs_no_bit_and_no_point(number, started, undisturbed):
    check_kill_of_one(number, *started, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100, 200))
def test_kill_9_of_one_rank_a_hundred_times(number, started, undisturbed):
    check_kill_of_one(number, *started, undisturbed)


def test_two_ranks_die_one_after_the_other_and_the_last_one_finishes(started, undisturbed):
    run, process = started
    ranks = ranks_of(process)
    for victim, steps in ((0, 2), (1, 4)):  # each time the one that writes
        wait_for_steps(run, steps, process)
        ranks[victim].kill()
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    assert points(run) == points(undisturbed)
    assert summary(run)["digest"] == summary(undisturbed)["digest"] and summary(run)["ranks"] == 1


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stalled_rank_is_named_and_ends_the_job_with_75_and_resume_finishes(victim, started, undisturbed):
    run, process = started
    ranks = ranks_of(process)
    wait_for_steps(run, 2, process)
    os.kill(ranks[victim].pid, signal.SIGSTOP)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, err
    assert f"waited 5 s in vain for rank {victim} on" in err
    assert not psutil.wait_procs(ranks, timeout=GONE_S)[1]
    done = es_mpi(["resume", run], ranks=2)
    assert done.returncode == 0, done.stderr
    assert points(run) == points(undisturbed)
    assert summary(run)["digest"] == summary(undisturbed)["digest"]


@pytest.mark.parametrize("trial", [0, *(pytest.param(trial, marks=pytest.mark.slow) for trial in range(1, 40))])
def test_fault_tolerance_off_ends_the_job_with_75(tmp_path, trial):
    process = start_es_mpi(
        ["train", str(toy_config(tmp_path, **SECTIONS, comm={"fault_tolerance": "off"}))], RANKS, "--with-ft", "ulfm"
    )
    wait_for_steps(tmp_path / "runs" / "run", 2, process)
    ranks_of(process)[1].kill()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, err
    assert "rank 1 on" in err and "cannot be reached" in err
