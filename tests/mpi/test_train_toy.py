"""Whole runs of the real command under the real launcher, on an engine that takes no time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from mpi_launch import REPO, kill_ranks, rank_env, ranks_of
from runs import TESTS_ON_PATH, es_mpi, journal, start_es_mpi, summary, toy_config, wait_for_steps

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]


def train(config: Path, *overrides: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    return es_mpi(["train", config, *overrides], ranks=ranks)


def test_any_number_of_ranks_ends_in_the_same_bits(tmp_path):
    config = toy_config(tmp_path)
    ends = {}
    for ranks in (1, 2, 3):
        done = train(config, f"run.name=r{ranks}", ranks=ranks)
        assert done.returncode == 0, done.stderr
        ends[ranks] = [(r["members"], r["terms"], r["digest"]) for r in journal(tmp_path / "runs" / f"r{ranks}")]
        assert summary(tmp_path / "runs" / f"r{ranks}")["ranks"] == ranks
    assert ends[1] == ends[2] == ends[3]
    assert len({digest for _, _, digest in ends[1]}) == 6
    evals = [summary(tmp_path / "runs" / f"r{ranks}")["evaluation"] for ranks in (1, 2, 3)]
    assert evals[0] == evals[1] == evals[2]


def test_it_learns(tmp_path):
    done = train(toy_config(tmp_path), "phases.warm.updates=40", "phases.warm.population=32", "task.train_size=16")
    assert done.returncode == 0, done.stderr
    rewards = [sum(m[1] for m in r["members"]) / len(r["members"]) for r in journal(tmp_path / "runs" / "run")]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.1


def test_nobody_listening_does_not_end_a_run(tmp_path):
    config = toy_config(tmp_path)
    command = f"'{sys.executable}' -m es_mpi train '{config}' run.name="
    for name, listener in (("full", "> /dev/full"), ("closed", "<&- >&- 2>&-"), ("head", "phases.warm.updates=40 | head -n 1")):
        script = f"set -o pipefail; {command}{name} {listener}"
        done = subprocess.run(["bash", "-c", script], cwd=REPO, env=rank_env(TESTS_ON_PATH), timeout=120, check=False)
        assert done.returncode == 0 and (tmp_path / "runs" / name / "summary.json").is_file(), name


@pytest.mark.parametrize("estimator", ["one_point", "antithetic"])
@pytest.mark.parametrize("shaping", ["zscore", "centered_rank", "none"])
def test_every_estimator_and_shaping_runs(tmp_path, estimator, shaping):
    overrides = [f"phases.warm.estimator={estimator}", f"phases.warm.shaping={shaping}", "phases.warm.population=8"]
    done = train(toy_config(tmp_path), *overrides, "phases.warm.updates=2")
    assert done.returncode == 0, done.stderr


def test_alpha_zero_for_twenty_updates_changes_no_bit(tmp_path):
    assert train(toy_config(tmp_path), "phases.warm.alpha=0", "phases.warm.updates=20").returncode == 0
    assert len({r["digest"] for r in journal(tmp_path / "runs" / "run")}) == 1


def test_nan_rewards_of_one_rank_fail_its_members_only(tmp_path):
    config = toy_config(tmp_path, task={"reward": "toy_reward:nan_on_rank_1"}, grading={"workers": 0})
    done = train(config, ranks=2)
    assert done.returncode == 0, done.stderr
    statuses = [status for _, _, status in journal(tmp_path / "runs" / "run")[0]["members"]]
    assert statuses == ["ok", "failed"] * 3 + ["ok"]


def test_a_grader_that_always_raises_stops_the_run_once_and_says_why(tmp_path):
    done = train(toy_config(tmp_path, task={"reward": "toy_reward:raises_in_training"}), "eval.before=false", ranks=2)
    assert done.returncode != 0
    assert done.stderr.count("members could be evaluated") == 1
    assert done.stderr.count("RuntimeError: this grader is broken") == 1
    log = (tmp_path / "runs" / "run" / "logs" / "attempt_1" / "rank_1.log").read_text()
    assert "this grader is broken" in log


def long_run(folder: Path) -> Path:
    """The config of a run that outlasts any test."""
    phase = {"kind": "es", "updates": 200, "population": 7, "sigma": 0.3, "alpha": 0.3}
    return toy_config(folder, task={"reward": "toy_reward:slow_closeness"}, phases={"warm": phase})


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_journal_that_lost_every_step_is_not_taken_for_a_new_run(tmp_path, left):
    """Gone, empty, or torn in its first line."""
    assert train(toy_config(tmp_path)).returncode == 0
    run = tmp_path / "runs" / "run"
    lines = (run / "journal.jsonl").read_bytes()
    (run / "journal.jsonl").unlink()
    if left is not None:
        (run / "journal.jsonl").write_bytes(lines[:left])
    before = set(run.rglob("*"))
    done = es_mpi(["resume", run])
    assert done.returncode == 2 and "put the journal back" in done.stderr
    assert set(run.rglob("*")) - before <= {run / ".lock"}


def test_sigterm_saves_and_exits_75_and_resume_finishes(tmp_path):
    config = long_run(tmp_path)
    run = tmp_path / "runs" / "run"
    process = start_es_mpi(["train", str(config)], ranks=2)
    wait_for_steps(run, 2, process)
    children = psutil.Process(process.pid).children(recursive=True)
    ranks = [p for p in children if "es_mpi" in p.cmdline()]  # their grading processes are es_mpi.grading.worker
    os.kill(ranks[-1].pid, signal.SIGTERM)
    out = "".join(process.communicate(timeout=60))
    assert process.returncode == 75, out
    steps = len(journal(run))
    assert (run / "checkpoints" / f"step_{steps:06d}" / "manifest.json").exists() and "es-mpi resume" in out
    done = es_mpi(["resume", run, "--force", "phases.warm.updates", f"phases.warm.updates={steps + 2}"])
    assert done.returncode == 0, done.stderr
    assert len(journal(run)) == steps + 2
    again = es_mpi(["resume", run])  # the folder knows what it was told
    assert again.returncode == 0 and len(journal(run)) == steps + 2, again.stderr


@pytest.mark.parametrize("prompts", [4, 64])
def test_a_long_update_is_broken_off_by_a_signal_to_one_rank(tmp_path, prompts):
    """Between two members of 2 s; within a member of 32 s, with which nobody has the patience."""
    config = toy_config(tmp_path, task={"reward": "toy_reward:half_a_second", "batch_size": prompts}, eval={"before": False})
    process = start_es_mpi(["train", str(config), "phases.warm.population=40"], ranks=2)
    run = tmp_path / "runs" / "run"
    end = time.monotonic() + 60
    while not (run / "journal.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(1)  # into the first member, as a rule; the end is the same in any case
    os.kill(ranks_of(process)[1].pid, signal.SIGUSR1)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 75 and "stopped by a signal after step 0" in err, err
    assert journal(run) == []


def test_resume_refuses_changed_results_and_replays_torn_or_damaged_state(tmp_path):
    config = toy_config(tmp_path, checkpoint={"every": 2})
    assert train(config).returncode == 0
    run, end = tmp_path / "runs" / "run", journal(tmp_path / "runs" / "run")[-1]["digest"]
    refused = es_mpi(["resume", run, "phases.warm.sigma=0.1"])
    assert refused.returncode == 2 and "phases.warm.sigma" in refused.stderr
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join(lines[:4]) + lines[4][:25])
    newest = run / "checkpoints" / "step_000004" / "master.f32"
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    done = es_mpi(["resume", run])
    assert done.returncode == 0, done.stderr
    assert "step_000004" in done.stdout and journal(run)[-1]["digest"] == end and len(journal(run)) == 6
    shutil.rmtree(run / "checkpoints")
    again = es_mpi(["replay", run, "--step", "6", "--out", tmp_path / "replayed"])
    assert again.returncode == 0 and end in again.stdout


def test_resume_does_what_a_kill_after_the_last_step_left_undone(tmp_path):
    assert train(toy_config(tmp_path)).returncode == 0
    run = tmp_path / "runs" / "run"
    ended = summary(run)
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints" / "step_000006")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(line for line in lines if json.loads(line)["step"] != 6 or "eval/" not in line))
    assert es_mpi(["resume", run], ranks=2).returncode == 0
    assert summary(run)["evaluation"] == ended["evaluation"] and summary(run)["digest"] == ended["digest"]
    assert (run / "checkpoints" / "step_000006" / "manifest.json").exists()


def test_a_second_job_keeps_out_of_a_run_that_goes_on(tmp_path):
    config = long_run(tmp_path)
    run = tmp_path / "runs" / "run"
    process = start_es_mpi(["train", str(config)], ranks=2)
    wait_for_steps(run, 1, process)
    second = es_mpi(["resume", run], ranks=2)
    assert second.returncode == 2 and "another job" in second.stderr
    assert f"process {ranks_of(process)[0].pid} on {socket.gethostname()} since" in second.stderr
    kill_ranks(process)
    steps = len(journal(run))
    assert es_mpi(["resume", run, "--force", "phases.warm.updates", f"phases.warm.updates={steps}"]).returncode == 0


def test_replayed_weights_are_those_of_the_checkpoint(tmp_path):
    assert train(toy_config(tmp_path)).returncode == 0
    run, out = tmp_path / "runs" / "run", tmp_path / "replayed"
    assert es_mpi(["replay", run, "--step", "6", "--out", out]).returncode == 0
    assert (out / "model.safetensors").read_bytes() == (run / "checkpoints/step_000006/model.safetensors").read_bytes()
    assert es_mpi(["replay", run, "--step", "9", "--out", tmp_path / "x"]).returncode == 2


def test_a_journal_damaged_before_its_last_line_is_refused_by_line_and_left_alone(tmp_path):
    assert train(toy_config(tmp_path)).returncode == 0
    run = tmp_path / "runs" / "run"
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = b'{"step": 3, "members": [[0,\n'
    (run / "journal.jsonl").write_bytes(b"".join(lines))
    refused = es_mpi(["resume", run], ranks=2)
    assert refused.returncode == 2 and "line 3 of" in refused.stderr and "restore the file" in refused.stderr
    assert (run / "journal.jsonl").read_bytes() == b"".join(lines)
