"""Whole runs on the real engine with a real, tiny language model, started by the real launcher."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi_launch import REPO, kill_ranks, rank_env, ranks_of
from runs import engine_config, es_mpi, journal, start_es_mpi, summary, wait_for_steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

UPDATES = 4
CONFIG = {
    "model": {"dtype": "bfloat16", "max_model_len": 64},
    "engine": {"threads": 1, "kv_cache_gib": 0.125, "max_num_seqs": 64},
    "task": {"name": "arithmetic", "batch_size": 64, "options": {"form": "plain"}},
    "sampling": {"max_tokens": 4},
    "phases": {"warm": {"kind": "es", "updates": UPDATES, "population": 5, "sigma": 5e-3, "alpha": 1e-2}},
    "eval": {"problems": 40, "samples": 2, "k": [1, 2]},
    "checkpoint": {"every": 2},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_dir: Path) -> Path:
    return engine_config(tmp_path_factory.mktemp("real engine"), tiny_dir, CONFIG)


@pytest.fixture(scope="module")
def runs(config: Path) -> dict[int, Path]:
    """Number of ranks to run folder."""
    folders = {}
    for ranks in (1, 2, 3):
        done = es_mpi(["train", config, f"run.name=r{ranks}"], ranks=ranks, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        folders[ranks] = config.parent / "runs" / f"r{ranks}"
        (folders[ranks] / "console").write_text(done.stdout + done.stderr)
    return folders


def steps(run: Path) -> list[tuple[object, ...]]:
    return [(r["step"], r["members"], r["terms"], r["digest"]) for r in journal(run)]


def greedy(run: Path, step: int) -> list[tuple[str, str]]:
    """(problem, response) of the greedy responses that were evaluated after `step`."""
    with gzip.open(run / "eval" / "arithmetic" / f"step_{step:06d}.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    return [(row["problem"], row["response"]) for row in rows if row["sample"] == -1]


def test_rewards_and_weights_are_the_same_on_any_number_of_ranks(runs):
    one, two, three = (steps(runs[ranks]) for ranks in (1, 2, 3))
    assert one == two == three
    assert len({digest for *_, digest in one}) == UPDATES
    assert {status for _, members, *_ in one for *_, status in members} == {"ok"}
    assert greedy(runs[1], UPDATES) == greedy(runs[2], UPDATES) == greedy(runs[3], UPDATES)
    assert summary(runs[1])["evaluation"] == summary(runs[3])["evaluation"]


def test_the_run_folder_is_as_documented_and_the_console_quiet(runs):
    run = runs[2]
    wanted = ["config.yaml", "journal.jsonl", "metrics.jsonl", "summary.json", "tb", "eval/arithmetic/step_000000.jsonl.gz"]
    wanted += ["checkpoints/step_000002/manifest.json", "checkpoints/step_000004/manifest.json", "logs/latest/rank_1.log"]
    assert all((run / name).exists() for name in wanted)
    console = (run / "console").read_text().splitlines()
    assert sum(line.startswith("update ") for line in console) == UPDATES
    assert not [line for line in console if "vllm" in line.lower() or "WARNING" in line or "Warning" in line]
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    sent = [row["perf/bytes_per_step"] for row in metrics if "perf/bytes_per_step" in row]
    assert len(sent) == UPDATES and max(sent) < 16 * 5 + 100


def test_kill_9_of_all_ranks_then_resume_ends_in_the_same_bits(config, runs):
    kill_and_resume(config, runs, 0)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(1, 5))
def test_kill_9_four_more_times(config, runs, attempt):
    kill_and_resume(config, runs, attempt)


def kill_and_resume(config: Path, runs: dict[int, Path], attempt: int) -> None:
    run = config.parent / "runs" / f"killed{attempt}"
    chance = random.Random(attempt)
    process = start_es_mpi(["train", str(config), f"run.name={run.name}"], ranks=2)
    wait_for_steps(run, chance.randrange(UPDATES), process, deadline=200)
    time.sleep(chance.random())  # anywhere within a step; the result may not depend on where
    kill_ranks(process)
    done = es_mpi(["resume", run], ranks=1 + attempt % 2, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert steps(run) == steps(runs[1]) and summary(run)["digest"] == summary(runs[1])["digest"]
    assert greedy(run, UPDATES) == greedy(runs[1], UPDATES)


@pytest.mark.slow
@pytest.mark.parametrize("victim", range(3))
def test_the_run_goes_on_without_a_rank_that_dies(config, runs, victim):
    run = config.parent / "runs" / f"lost{victim}"
    process = start_es_mpi(["train", str(config), f"run.name={run.name}"], 3, "--with-ft", "ulfm")
    wait_for_steps(run, 1, process, deadline=200)
    ranks_of(process)[victim].kill()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "goes on with 2 rank(s)" in out
    assert steps(run) == steps(runs[1]) and summary(run)["digest"] == summary(runs[1])["digest"]
    assert greedy(run, UPDATES) == greedy(runs[1], UPDATES)


def test_the_checkpoint_loads_in_transformers_with_its_tie(runs):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = runs[1] / "checkpoints" / f"step_{UPDATES:06d}"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert AutoTokenizer.from_pretrained(folder)("12+7=").input_ids
    base = AutoModelForCausalLM.from_pretrained(json.loads((runs[1] / "summary.json").read_text())["model"])
    moved = [not torch.equal(a, b) for a, b in zip(model.parameters(), base.parameters(), strict=True)]
    assert all(moved) and {p.dtype for p in model.parameters()} == {p.dtype for p in base.parameters()}


def test_the_checkpoint_loads_in_vllm_unchanged_and_responds_as_the_run_did(runs, tmp_path):
    """A plain vLLM of the folder. Both hold the same rounded weights: the engine's type is the checkpoint's."""
    program = tmp_path / "plain_vllm.py"
    program.write_text(
        "import json, sys\nfrom vllm import LLM, SamplingParams\n"
        "llm = LLM(sys.argv[1], max_model_len=64, enforce_eager=True, kv_cache_memory_bytes=2**27, disable_log_stats=True)\n"
        "texts = json.loads(sys.argv[2])\n"
        "out = llm.generate(texts, SamplingParams(temperature=0, max_tokens=4, stop=['\\n']), use_tqdm=False)\n"
        "print('RESPONSES' + json.dumps([o.outputs[0].text for o in out]))\n"
    )
    said = greedy(runs[1], UPDATES)
    questions = [problem.removeprefix("arithmetic-") + "=" for problem, _ in said]
    env = rank_env({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_ATTN_SPLIT_KV": "0"})
    command = [sys.executable, str(program), str(runs[1] / "checkpoints" / f"step_{UPDATES:06d}"), json.dumps(questions)]
    done = subprocess.run(command, env=env, cwd=REPO, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    responses = json.loads(done.stdout.partition("RESPONSES")[2])
    assert responses == [response for _, response in said]
