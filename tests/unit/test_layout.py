"""The flat address space of the parameters, and every way a model folder can be wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_models import two_layers, write_model, write_safetensors

from es_mpi.errors import UsageError
from es_mpi.params.layout import read_layout

HALF = np.full((2, 3), 0.5, np.float32)


def test_tensors_stand_in_name_order_at_multiples_of_1024(tmp_path):
    layout = read_layout(two_layers(tmp_path))
    places = [("a.weight", 0, 16), ("b.weight", 1024, 16), ("c.norm", 2048, 4)]
    assert [(t.name, t.offset, t.size) for t in layout.tensors] == places
    assert layout.elements == 3072 and layout.parameters == 36


def test_addresses_do_not_depend_on_sharding_or_on_what_is_trained(tmp_path):
    whole = read_layout(two_layers(tmp_path / "whole"), exclude=["b.*"])
    split = tmp_path / "split"
    ones = np.ones((4, 4), np.float32)
    write_model(split, {}, tie_word_embeddings=False)
    (split / "model.safetensors").unlink()
    write_safetensors(split / "model-1.safetensors", {"b.weight": ("F32", ones), "c.norm": ("F32", ones[0])})
    write_safetensors(split / "model-2.safetensors", {"a.weight": ("F32", ones)})
    weight_map = {"b.weight": "model-1.safetensors", "c.norm": "model-1.safetensors", "a.weight": "model-2.safetensors"}
    (split / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert [(t.name, t.offset) for t in read_layout(split).tensors] == [(t.name, t.offset) for t in whole.tensors]
    assert [t.trained for t in whole.tensors] == [True, False, True]
    assert whole.trained_parameters == 20


def test_a_tied_head_counts_once(tmp_path):
    both = {"lm_head.weight": ("BF16", HALF), "model.embed_tokens.weight": ("BF16", HALF)}
    tied = read_layout(write_model(tmp_path / "tied", both, tie_word_embeddings=True))
    assert [t.name for t in tied.tensors] == ["model.embed_tokens.weight"]
    assert len(read_layout(write_model(tmp_path / "untied", both, tie_word_embeddings=False)).tensors) == 2


def test_fingerprint_sees_names_shapes_and_trained_flags(tmp_path):
    folder = two_layers(tmp_path)
    prints = {read_layout(folder).fingerprint(), read_layout(folder, exclude=["a.*"]).fingerprint()}
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "cannot be read"),
        (lambda f: (f / "config.json").write_text('{"quantization_config": {"bits": 4}}'), "quantised"),
        (lambda f: write_safetensors(f / "model.safetensors", {"a": ("I8", HALF)}), "quantised"),
        (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-4]), "header promises"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "does not fit"),
        (lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone.safetensors"}}'), "gone.safe"),
    ],
)
def test_unusable_folders_are_refused_by_name(tmp_path, damage, message):
    folder = two_layers(tmp_path)
    damage(folder)
    with pytest.raises(UsageError, match=message) as caught:
        read_layout(folder)
    assert caught.value.key == "model.path"


def test_missing_folder_and_empty_selection(tmp_path):
    with pytest.raises(UsageError, match="not found"):
        read_layout(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no tensor to train") as caught:
        read_layout(two_layers(tmp_path / "m"), include=["z*"])
    assert caught.value.key == "model.include"
