"""docs/configuration.md and configs/ against the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from es_mpi.config import load_config
from es_mpi.config.document import keys, tables

REPO = Path(__file__).resolve().parents[2]
DOCUMENT = (REPO / "docs" / "configuration.md").read_text(encoding="utf-8")
CONFIGS = sorted((REPO / "configs").glob("*.yaml"))


@pytest.mark.parametrize("name", tables())
def test_each_table_is_the_schema(name: str) -> None:
    assert f"## {name}\n" in DOCUMENT
    assert tables()[name] in DOCUMENT, f"docs/configuration.md is not up to date in {name}: python -m es_mpi.config.document"


def test_no_key_of_the_document_is_unknown() -> None:
    documented = {line.split("`")[1] for line in DOCUMENT.splitlines() if line.startswith("| `")}
    assert documented == {path for path, _ in keys()}


def test_every_key_says_what_it_is() -> None:
    for path, info in keys():
        assert info.key is not None and info.key.doc.endswith("."), path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path) -> None:
    assert load_config(path).run.name == path.stem


def test_the_papers_easy_setting_to_the_number() -> None:
    """Algorithms table of arXiv 2608.27351, column easy."""
    config = load_config(REPO / "configs" / "gsm8k_es.yaml")
    phase = config.phases["warm"]
    assert (phase.population, phase.sigma, phase.alpha, phase.updates) == (32, 1.5e-3, 2.5e-4, 234)
    assert (phase.estimator, phase.shaping) == ("one_point", "zscore")
    assert (config.task.batch_size, config.task.reward, config.run.seed) == (64, "boxed_string", 42)
    assert (config.sampling.temperature, config.sampling.top_p, config.sampling.max_tokens) == (0.0, 1.0, 2048)
    assert (config.model.path, config.model.dtype, config.model.max_model_len) == ("Qwen/Qwen2.5-1.5B-Instruct", "bfloat16", 4096)
    assert (config.eval.samples, config.eval.temperature, config.eval.top_p, config.eval.k) == (32, 0.6, 1.0, (1, 16, 32))


def test_the_papers_countdown_setting_to_the_number() -> None:
    """Algorithms table of arXiv 2509.24372, column Countdown."""
    config = load_config(REPO / "configs" / "countdown_es.yaml")
    phase = config.phases["warm"]
    assert (phase.population, phase.sigma, phase.alpha, phase.updates) == (30, 1e-3, 5e-4, 500)
    assert (config.task.batch_size, config.task.reward) == (200, "countdown")
    assert (config.sampling.temperature, config.sampling.max_tokens, config.model.dtype) == (0.0, 1024, "bfloat16")


@pytest.mark.parametrize(("name", "updates"), [("grpo", 234), ("es_then_grpo", 117), ("grpo_then_es", 117)])
def test_the_papers_grpo_to_the_number(name: str, updates: int) -> None:
    """Algorithms table of arXiv 2608.27351, column easy; sequences share the updates."""
    config = load_config(REPO / "configs" / f"{name}.yaml")
    phase = next(phase for phase in config.phases.values() if phase.kind == "grpo")
    assert (phase.group_size, phase.lr, phase.minibatch, phase.temperature, phase.updates) == (8, 1e-6, 32, 1.0, updates)
    assert (phase.clip_low, phase.clip_high, phase.beta_ref, phase.adv_ddof) == (0.2, 0.2, 1e-3, 0)
    assert (phase.aggregation, config.task.batch_size) == ("seq-mean-token-mean", 64)
    assert sum(phase.updates for phase in config.phases.values()) == 234
