"""Fisher information of the tiny model from the engine's forward passes, against backward passes of another implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from es_mpi.analysis.estimates import fisher_trace
from es_mpi.config.schema import EngineConfig, ModelConfig
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.population import members
from es_mpi.types import Prompt, Sampling

pytestmark = pytest.mark.engine

SIGMA, DIRECTIONS = 1e-3, 48


def squared_gradients(folder: Path, prompts: list[Prompt], responses: list[tuple[int, ...]]) -> list[float]:
    """|d log pi(response) / d theta|^2 by backpropagation in transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = []
    for prompt, response in zip(prompts, responses, strict=True):
        model.zero_grad()
        ids, start = [*prompt.token_ids, *response], len(prompt.token_ids)
        logs = model(torch.tensor([ids])).logits[0, start - 1 : -1].log_softmax(-1)
        logs[range(len(response)), list(response)].sum().backward()
        found.append(sum(float(p.grad.square().sum()) for p in model.parameters()))
    return found


def test_central_differences_are_the_squared_gradients(tiny_dir, tmp_path):
    from transformers import AutoTokenizer

    from es_mpi.engine.vllm import VllmEngine

    tokenizer = AutoTokenizer.from_pretrained(tiny_dir)
    texts = ["12+7=", "9x8=", "max(4,50,31)="]
    prompts = [Prompt(text, tuple(tokenizer(text).input_ids)) for text in texts for _ in range(4)]
    model = ModelConfig(path=str(tiny_dir), dtype="float32", max_model_len=64)
    engine = VllmEngine(model, EngineConfig(kv_cache_gib=0.25, threads=1), MasterStore(read_layout(tiny_dir)), tmp_path / "log")
    try:
        said = engine.generate(prompts, Sampling(1.0, 1.0, 6, ("\n",), logprobs=True), range(len(prompts)))
        responses = [one.token_ids for one in said]
        sides: dict[int, list[list[float]]] = {1: [], -1: []}
        given = engine.logprobs(prompts, responses)
        for direction in members(5, 0, 2 * DIRECTIONS, "antithetic"):
            engine.load(direction, SIGMA)
            sides[direction.sign].append([sum(one) for one in engine.logprobs(prompts, responses)])
    finally:
        engine.close()
    assert np.concatenate(given) == pytest.approx(np.concatenate([one.logprobs for one in said]), abs=1e-4)
    plus, minus = (np.array(sides[sign])[:, :, None] for sign in (1, -1))
    found = fisher_trace(plus, minus, SIGMA)
    expected = float(np.mean(squared_gradients(tiny_dir, prompts, responses)))
    by_direction = np.mean(((plus - minus) / (2 * SIGMA)) ** 2, axis=(1, 2))  # the responses are the same on both sides
    error = float(by_direction.std(ddof=1)) / np.sqrt(DIRECTIONS)
    assert found.value == pytest.approx(expected, abs=4 * error)
    assert error < 0.25 * expected
    assert found.error > error
