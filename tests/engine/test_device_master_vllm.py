"""The real engine with theta "on the device", which here is the host's driver: slots are written there, in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from device_kernels import compiler

from es_mpi.config.schema import EngineConfig, ModelConfig
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.types import Member, UpdateTerm

pytestmark = [pytest.mark.engine, compiler]
TERMS = [UpdateTerm(5, 1e-2), UpdateTerm(2**64 - 5, -2e-2)]


def test_every_slot_is_written_on_the_device_with_the_bits_of_the_host(tiny_dir: Path, tmp_path: Path, kernels) -> None:
    from es_mpi.engine.vllm import VllmEngine
    from es_mpi.engine.vllm_weights import numpy_view

    here, there = (MasterStore(read_layout(tiny_dir)) for _ in range(2))
    model = ModelConfig(path=str(tiny_dir), dtype="bfloat16", max_model_len=64)
    config = EngineConfig(kv_cache_gib=0.1, master="device")
    engine = VllmEngine(model, config, there, tmp_path / "engine.log")  # its self-test compares every tensor
    try:
        assert engine.notes == () or "arithmetic" in engine.notes[0]
        here.update(TERMS)
        there.update(TERMS)
        assert here.digest() == there.digest()
        embedding = next(t for t in engine._weights.targets if t.live and "embed" in t.slots[0].name)
        before = embedding.tensor.data_ptr()
        for member in (Member(0, 11), Member(1, 12, -1), None):
            engine.load(member, 0.01)
            slot = embedding.slots[0]
            expected = np.empty(slot.size, np.uint16)
            here.write(slot.name, expected, member, 0.01)
            written = embedding.tensor.view(-1)[slot.start : slot.start + slot.size]
            assert numpy_view(written).tobytes() == expected.tobytes()
            assert embedding.tensor.data_ptr() == before
            assert engine._weights.mismatches(member, 0.01) == []
    finally:
        engine.close()
