"""Model classes beside SmolLM2's tied Llama: an untied Llama, and Qwen3 with its norms of queries and keys, freshly drawn.

(The tiny model of other tests is a tied Qwen2, with biases.) Two engines in one process, one after the other.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from reference_model import reference_logprobs

from es_mpi.config.schema import EngineConfig, ModelConfig
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.types import Member

pytestmark = pytest.mark.engine

SIZES = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 128, "tie_word_embeddings": False,
}
SEQUENCES = [list(range(4, 40)), [50, 7, 90, 33, 8]]


def drawn_model(kind: str, folder: Path, tokenizer: Path) -> Path:
    """A checkpoint of untrained weights, large enough that log-probabilities are far from uniform."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    make, config = {"llama": (LlamaForCausalLM, LlamaConfig), "qwen3": (Qwen3ForCausalLM, Qwen3Config)}[kind]
    model, generator = make(config(**SIZES)), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.2, generator=generator)
    shutil.copytree(tokenizer, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "generation_config.json"))
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_perturbed_model_gives_the_log_probabilities_of_transformers(kind, tmp_path, tiny_dir):
    import torch
    from transformers import AutoModelForCausalLM

    from es_mpi.engine.vllm import VllmEngine

    folder = drawn_model(kind, tmp_path / kind, tiny_dir)
    store, member, sigma = MasterStore(read_layout(folder)), Member(0, 123), 0.05
    model = ModelConfig(path=str(folder), dtype="float32", max_model_len=64)
    engine = VllmEngine(model, EngineConfig(kv_cache_gib=0.0625), store, tmp_path / "log")
    assert "LD_PRELOAD" not in os.environ  # set for children, it would speak up in each of a grader's
    try:
        engine.load(member, sigma)
        got = np.concatenate(engine.prompt_logprobs(SEQUENCES))
    finally:
        engine.close()
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    expected = reference_logprobs(reference, store, SEQUENCES, member, sigma)
    assert np.abs(got - expected).mean() < 1e-4
    assert np.std(expected) > 0.5
