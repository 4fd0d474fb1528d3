"""The real engine on a real model: what is written is what is computed with, and nothing else changes a response.

Everything is measured on one fp32 engine of SmolLM2-135M against transformers holding the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reference_model import reference_logprobs

from es_mpi.config.schema import EngineConfig, ModelConfig
from es_mpi.errors import EngineError
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.types import Member, Prompt, Sampling, UpdateTerm

pytestmark = pytest.mark.engine

TEXTS = (
    "The capital of France is Paris, and the river that flows through it is the Seine.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))",
    "max(12,40,7)=40\nmax(3,9,1)=9\nmax(55,54,56)=",
)
SIGMA = 0.01
MEMBERS = (Member(0, 11), Member(1, 12, -1), Member(2, 2**64 - 3))


@pytest.fixture(scope="module")
def engine(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from es_mpi.engine.vllm import VllmEngine

    store = MasterStore(read_layout(smollm2_dir))
    model = ModelConfig(path=str(smollm2_dir), dtype="float32", max_model_len=256)
    opened = VllmEngine(model, EngineConfig(kv_cache_gib=0.5), store, tmp_path_factory.mktemp("log") / "engine.log")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def sequences(smollm2_dir: Path) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir)
    return [tokenizer(text).input_ids for text in TEXTS]


@pytest.fixture(scope="module")
def transformer(smollm2_dir: Path) -> object:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32)


def test_logprobs_match_transformers_for_three_members_in_a_row_and_the_centre(engine, transformer, sequences):
    centre = None
    for member in (*MEMBERS, None):
        engine.load(member, SIGMA)
        got = np.concatenate(engine.prompt_logprobs(sequences))
        expected = reference_logprobs(transformer, engine.store, sequences, member, SIGMA)
        assert np.abs(got - expected).mean() < 1e-4, member
        centre = got if member is None else centre
    engine.load(MEMBERS[0], SIGMA)
    assert np.abs(np.concatenate(engine.prompt_logprobs(sequences)) - centre).mean() > 0.05


def test_a_change_of_the_tied_embedding_alone_reaches_the_packed_head(engine, transformer, sequences):
    """The trap of reloading: the head keeps a packed copy of the embedding, which only a repack refreshes."""
    spec = engine.store.layout["model.embed_tokens.weight"]
    theta = engine.store.master[spec.offset : spec.offset + spec.size]
    saved = theta.copy()
    try:
        theta *= 1.25
        engine.load(None)
        got = np.concatenate(engine.prompt_logprobs(sequences))
        expected = reference_logprobs(transformer, engine.store, sequences, None, 0.0)
    finally:
        theta[:] = saved
        engine.load(None)
    assert np.abs(got - expected).mean() < 1e-4


def test_a_write_that_misses_the_packed_head_is_noticed(engine, monkeypatch):
    from es_mpi.engine import vllm_weights

    repack = vllm_weights._repack
    head = "ParallelLMHead"
    monkeypatch.setattr(vllm_weights, "_repack", lambda layer, w: None if type(layer).__name__ == head else repack(layer, w))
    with pytest.raises(EngineError, match="did not arrive"):
        engine._self_test()
    monkeypatch.undo()
    engine.load(None)
    engine._self_test()


def test_thirty_members_then_the_centre_again(engine, sequences):
    prompts, greedy = [Prompt(str(i), tuple(s[:12])) for i, s in enumerate(sequences)], Sampling(0.0, 1.0, 16)
    engine.load(None)
    before = engine.prompt_logprobs(sequences), [c.text for c in engine.generate(prompts, greedy, [0, 0, 0])]
    digest = engine.store.digest()
    for index in range(30):
        engine.load(Member(index, 1000 + index), SIGMA)
    engine.load(None)
    assert engine._weights.mismatches(None, 0.0) == []
    assert (engine.prompt_logprobs(sequences), [c.text for c in engine.generate(prompts, greedy, [0, 0, 0])]) == before
    assert engine.store.digest() == digest


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_response_depends_on_prompt_seed_and_weights_alone(engine, sequences, temperature):
    sampling = Sampling(temperature, 1.0, 12)
    prompts = [Prompt(f"{i}", tuple(s[: 6 + i])) for i, s in enumerate(sequences * 3)]
    seeds = [100 + i for i in range(len(prompts))]
    engine.load(MEMBERS[0], SIGMA)
    together = engine.generate(prompts, sampling, seeds)
    again = engine.generate(prompts, sampling, seeds)
    backwards = engine.generate(prompts[::-1], sampling, seeds[::-1])[::-1]
    alone = [engine.generate([p], sampling, [s])[0] for p, s in zip(prompts, seeds, strict=True)]
    tokens = [c.token_ids for c in together]
    assert [c.token_ids for c in again] == tokens
    assert [c.token_ids for c in backwards] == tokens
    assert [c.token_ids for c in alone] == tokens


def test_sampling_uses_the_seed_and_stop_strings_end_a_response(engine, sequences):
    prompt = Prompt("p", tuple(sequences[0][:5]))
    engine.load(None)
    texts = {engine.generate([prompt], Sampling(1.0, 1.0, 12), [seed])[0].text for seed in range(6)}
    assert len(texts) > 1
    whole = engine.generate([prompt], Sampling(0.0, 1.0, 12), [0])[0]
    word = whole.text.split()[1]
    stopped = engine.generate([prompt], Sampling(0.0, 1.0, 12, (word,)), [0])[0]
    assert whole.truncated and not stopped.truncated
    assert stopped.text == whole.text[: whole.text.index(word)]


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
def test_logprobs_of_a_response_are_those_of_the_distribution_it_was_drawn_from(engine, transformer, sequences, temperature):
    engine.load(None)
    prompt = Prompt("p", tuple(sequences[0][:5]))
    found = engine.generate([prompt], Sampling(temperature, 1.0, 8, logprobs=True), [3])[0]
    whole = [[*prompt.token_ids, *found.token_ids]]
    expected = reference_logprobs(transformer, engine.store, whole, None, 0.0, temperature=temperature or 1.0)[-8:]
    assert np.abs(np.array(found.logprobs) - expected).mean() < 1e-4
    assert engine.generate([prompt], Sampling(temperature, 1.0, 8), [3])[0].logprobs == ()


def test_every_reply_carries_the_version_it_was_made_with(engine, sequences):
    prompt = Prompt("p", tuple(sequences[0][:5]))
    first = engine.load(MEMBERS[0], SIGMA)
    assert engine.generate([prompt], Sampling(0.0, 1.0, 2), [0])[0].version == first
    second = engine.load(None)
    assert second != first and engine.generate([prompt], Sampling(0.0, 1.0, 2), [0])[0].version == second


def test_an_update_moves_the_engine_too(engine, sequences):
    before = engine.prompt_logprobs(sequences)
    saved = engine.store.master.copy()
    engine.store.update([UpdateTerm(77, 0.01)])
    engine.load(None)
    moved = engine.prompt_logprobs(sequences)
    engine.store.master[:] = saved
    engine.load(None)
    assert moved != before and engine.prompt_logprobs(sequences) == before
