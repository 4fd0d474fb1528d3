"""Which keys make two configs the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from es_mpi.config import diff_relevant, fingerprint, load_config

TEXT = """\
model: {path: models/tiny}
task: {name: largest, options: {digits: 2, of: [3]}}
phases:
  warm: {kind: es, updates: 10}
"""
NEUTRAL = """
    run.name=other run.dir=/tmp monitor.console=plain monitor.tensorboard=false checkpoint.every=5 checkpoint.keep=9
    comm.deadline_s=5 engine.max_num_seqs=8 engine.threads=2 engine.prefix_caching=false engine.verbose=true
""".split()
RELEVANT = """
    run.seed=1 model.path=models/other model.dtype=float32 model.max_model_len=512 model.include=[a*] engine.kind=toy
    engine.deterministic=false task.name=arithmetic task.batch_size=8 task.options.digits=3 task.train=a.jsonl
    sampling.temperature=1 phases.warm.sigma=1e-2 phases.warm.population=16 phases.warm.updates=11 eval.samples=16
""".split()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    return path


def test_order_and_spelling_do_not_count(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        "pipeline: [warm]\n"
        "phases: {warm: {sigma: 0.0015, updates: 10, kind: es}}\n"
        "task: {options: {of: [3], digits: 2}, name: largest}\n"
        "model:\n  path: models/tiny\n"
    )
    assert fingerprint(load_config(path)) == fingerprint(load_config(other))


@pytest.mark.parametrize("override", NEUTRAL)
def test_a_neutral_key_may_differ(path: Path, override: str) -> None:
    old, new = load_config(path), load_config(path, [override])
    assert old != new and fingerprint(old) == fingerprint(new) and diff_relevant(old, new) == []


@pytest.mark.parametrize("override", RELEVANT)
def test_a_relevant_key_is_named(path: Path, override: str) -> None:
    old, new = load_config(path), load_config(path, [override])
    key = override.partition("=")[0].replace("options.digits", "options")
    assert fingerprint(old) != fingerprint(new) and diff_relevant(old, new) == [key]


def test_a_new_phase_is_named_key_by_key(path: Path) -> None:
    old, new = load_config(path), load_config(path, ["phases.tune={kind: es, updates: 3}"])
    assert {"pipeline", "phases.tune.kind", "phases.tune.updates"} <= set(diff_relevant(old, new))
