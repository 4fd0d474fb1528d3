"""The fp32 master: members are rebuilt from it, updates round once, checkpoints give it back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_models import bf16_bits, two_layers, write_model

from es_mpi.noise import reference
from es_mpi.params.hf_folder import save_folder
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.types import Member, UpdateTerm

MEMBER = Member(index=0, seed=2**63 + 11)


def store_of(folder, **patterns):
    return MasterStore(read_layout(folder, **patterns))


def bits_of(store, member=None, sigma=0.0):
    out = {}
    for spec in store.layout.tensors:
        out[spec.name] = np.empty(spec.size, np.uint16)
        store.write(spec.name, out[spec.name], member, sigma)
    return out


def test_two_equal_shapes_get_different_uncorrelated_noise(tmp_path):
    store = store_of(two_layers(tmp_path))
    a, b = np.empty(16, np.float32), np.empty(16, np.float32)
    store.write("a.weight", a, MEMBER, 1.0)
    store.write("b.weight", b, MEMBER, 1.0)
    assert not np.isclose(a - 1, b - 2).any()


def test_a_member_is_theta_plus_sigma_times_its_noise_by_global_address(tmp_path):
    store = store_of(two_layers(tmp_path))
    eps, out = np.empty(16, np.float32), np.empty(16, np.float32)
    reference.fill(eps, MEMBER.seed, start=1024)
    store.write("b.weight", out, Member(0, MEMBER.seed, -1), 0.25)
    np.testing.assert_allclose(out, 2 - 0.25 * eps, rtol=1e-6)


def test_thirty_members_leave_no_trace(tmp_path):
    rng = np.random.Generator(np.random.PCG64(0))
    weights = (rng.normal(0, 0.02, (1000, 1000)).astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    store = store_of(write_model(tmp_path, {"w": ("BF16", weights)}))
    before, digest = bits_of(store), store.digest()
    np.testing.assert_array_equal(before["w"], bf16_bits(weights).ravel())
    for index in range(30):
        bits_of(store, Member(index, index), 1e-3)
    assert (bits_of(store)["w"] != before["w"]).sum() == 0 and store.digest() == digest


def test_small_steps_add_up_that_bf16_would_lose(tmp_path):
    store = store_of(write_model(tmp_path, {"w": ("F32", np.full((64,), 0.02, np.float32))}))
    eps = np.empty(64, np.float32)
    reference.fill(eps, 5)
    for _ in range(200):
        store.update([UpdateTerm(5, float(np.float32(1e-5)))])
    np.testing.assert_allclose(store.master[:64], 0.02 + 200 * 1e-5 * eps, atol=2e-6)


def test_alpha_zero_leaves_every_bit(tmp_path):
    store = store_of(two_layers(tmp_path))
    before = store.master.tobytes()
    for _ in range(20):
        store.update([UpdateTerm(3, 0.0), UpdateTerm(4, -0.0)])
        store.update([])
    assert store.master.tobytes() == before


def test_frozen_tensors_are_neither_perturbed_nor_updated(tmp_path):
    store = store_of(two_layers(tmp_path), exclude=["b.*"])
    frozen, out = store.master[1024:1040].copy(), np.empty(16, np.float32)
    store.write("b.weight", out, MEMBER, 1.0)
    store.update([UpdateTerm(1, 1.0)])
    np.testing.assert_array_equal(out, frozen)
    np.testing.assert_array_equal(store.master[1024:1040], frozen)
    assert not np.array_equal(store.master[:16], np.ones(16))


def test_update_stats_measure_the_step(tmp_path):
    store = store_of(write_model(tmp_path, {"w": ("BF16", np.zeros((100, 100), np.float32))}))
    stats = store.update([UpdateTerm(9, 1.0)])
    assert stats.norm == pytest.approx(np.linalg.norm(store.master), rel=1e-5)
    assert stats.cosine == pytest.approx(1.0, abs=1e-4)


def test_digest_sees_one_bit(tmp_path):
    store = store_of(two_layers(tmp_path))
    before = store.digest()
    store.master[:1].view(np.uint32)[0] ^= 1
    assert store.digest() != before


@pytest.mark.parametrize("code", ["F32", "F16", "BF16"])
def test_saved_folder_reads_back_bit_for_bit(tmp_path, code):
    weights = np.array([[0.5, -2.0, 0.15625], [3.0, 0.0, -0.0]], np.float32)
    base = write_model(tmp_path / "base", {"x": (code, weights), "y": (code, weights[0])}, tie_word_embeddings=True)
    (base / "tokenizer.json").write_text("{}")
    (base / "pytorch_model.bin").write_text("old weights must not travel along")
    store = store_of(base)
    out = tmp_path / "out"
    out.mkdir()
    save_folder(store.layout, store.master, out)
    assert store_of(out).master.tobytes() == store.master.tobytes()
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_shards_and_their_index(tmp_path, monkeypatch):
    monkeypatch.setattr("es_mpi.params.hf_folder.SHARD_BYTES", 70)
    store = store_of(two_layers(tmp_path / "base"))
    out = tmp_path / "out"
    out.mkdir()
    save_folder(store.layout, store.master, out)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) == 3 and index["metadata"]["total_size"] == 36 * 4
    assert store_of(out).digest() == store.digest()
