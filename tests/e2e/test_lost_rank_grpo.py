"""A rank that dies in a gradient phase ends the job, by name, and resume goes on."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from mpi_launch import ranks_of
from runs import engine_config, es_mpi, journal, start_es_mpi, wait_for_steps

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

TUNE = {"kind": "grpo", "updates": 8, "group_size": 8, "lr": 3e-4, "minibatch": 8, "microbatch": 64, "compute": "float32"}
CONFIG = {
    "model": {"dtype": "float32", "max_model_len": 64},
    "engine": {"threads": 1, "kv_cache_gib": 0.125, "max_num_seqs": 128},
    "task": {"name": "arithmetic", "batch_size": 31, "options": {"form": "plain"}},
    "sampling": {"max_tokens": 4},
    "pipeline": ["tune"],
    "phases": {"tune": TUNE},
    "eval": {"before": False, "after": False},
    "checkpoint": {"every": 2},
}


@pytest.mark.parametrize("victim", range(3))
def test_a_rank_that_dies_in_a_gradient_phase_ends_the_job_by_name_and_resume_finishes(
    victim: int, tmp_path: Path, tiny_dir: Path
) -> None:
    config, run = engine_config(tmp_path, tiny_dir, CONFIG), tmp_path / "runs" / "run"
    process = start_es_mpi(["train", config], 3, "--with-ft", "ulfm")
    wait_for_steps(run, 2, process, deadline=200)
    time.sleep(random.Random(victim).random())  # in a generation, a sum of gradients or a save
    ranks_of(process)[victim].kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75, err
    assert f"rank {victim} on" in err and "cannot be reached" in err
    done = es_mpi(["resume", run], ranks=2, timeout=240)
    assert done.returncode == 0, done.stderr
    assert [record["step"] for record in journal(run)] == list(range(1, 9))
