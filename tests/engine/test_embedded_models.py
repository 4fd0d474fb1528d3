"""The embedded models as they are on disk: what transformers and vLLM will find there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from es_mpi.embedded import materialise, tiny
from es_mpi.params.layout import read_layout

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Short(tiny.Recipe):
    steps: int = 12
    warmup: int = 4


def test_smollm2_is_whole_with_its_embedding_tied(smollm2_dir: Path) -> None:
    layout = read_layout(smollm2_dir)
    assert len(layout.tensors) == 272
    assert layout.parameters == 134_515_008
    assert "lm_head.weight" not in layout
    assert {spec.dtype for spec in layout.tensors} == {"BF16"}
    config = json.loads((smollm2_dir / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert "quantization_config" not in config


def test_smollm2_answers_in_its_chat_form(smollm2_dir: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, tokenize=False
    )
    assert chat.endswith("<|im_start|>assistant\n")
    model = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    ids = tokenizer(chat, return_tensors="pt", add_special_tokens=False).input_ids
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8)
    assert "Paris" in tokenizer.decode(answer[0, ids.shape[1] :])


def test_tiny_is_small_and_speaks_single_characters(tiny_dir: Path) -> None:
    from transformers import AutoTokenizer

    layout = read_layout(tiny_dir)
    assert layout.parameters <= 3_000_000
    assert "lm_head.weight" not in layout
    tokenizer = AutoTokenizer.from_pretrained(tiny_dir)
    text = "max(12,40,7)="
    ids = tokenizer(text).input_ids
    assert len(ids) == 1 + len(text) and ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_a_model_that_is_trained_here_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first steps of the training, twice, with the global generator in another state; another seed is another model."""
    import torch

    monkeypatch.setattr(tiny, "Recipe", Short)
    folders = [tmp_path / name for name in ("first", "again", "other")]
    for index, (folder, seed) in enumerate(zip(folders, (0, 0, 1), strict=True)):
        folder.mkdir()
        torch.rand(index)
        before = torch.random.get_rng_state()
        tiny.write(folder, seed)
        assert torch.equal(torch.random.get_rng_state(), before)
    first, again, other = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == again
    assert first != other


def test_a_complete_model_is_not_made_again(tiny_dir: Path) -> None:
    before = (tiny_dir / "model.safetensors").stat().st_mtime_ns
    materialise("tiny", tiny_dir)
    assert (tiny_dir / "model.safetensors").stat().st_mtime_ns == before
