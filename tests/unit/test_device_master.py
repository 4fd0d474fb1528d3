"""theta in the memory of a GPU, on the host's driver of test_noise_device: a store gives the same answers with and without."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from device_kernels import compiler
from small_models import two_layers

from es_mpi.engine.device_master import DeviceMaster, open_device_master
from es_mpi.errors import EngineError
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.types import UpdateTerm

CPU = torch.device("cpu")
TERMS = [UpdateTerm(2**64 - 1, 0.25), UpdateTerm(3, -0.5)]
pytestmark = compiler


def store_of(folder) -> MasterStore:
    return MasterStore(read_layout(two_layers(folder)))


def test_a_store_answers_the_same_with_theta_elsewhere(tmp_path, kernels) -> None:
    here, there = store_of(tmp_path), store_of(tmp_path)
    master, note = open_device_master(there, CPU, "device", 0)
    assert isinstance(master, DeviceMaster) and not note
    for _ in range(2):
        stats, others = here.update(TERMS), there.update(TERMS)
        assert stats.norm == pytest.approx(others.norm) and stats.cosine == pytest.approx(others.cosine)
        assert here.digest() == there.digest()
    assert here.master.tobytes() == there.master.tobytes()
    for dtype, bits in ((torch.bfloat16, np.uint16), (torch.float32, np.float32)):
        spec = here.layout["b.weight"]
        out, expected = torch.empty(spec.size, dtype=dtype), np.empty(spec.size, bits)
        master.write(out, spec.offset, 9, -0.5)
        here.write(spec.name, expected, type("M", (), {"seed": 9, "sign": -1}), 0.5)
        assert (out.view(torch.uint16) if dtype == torch.bfloat16 else out).numpy().tobytes() == expected.tobytes()


def test_theta_elsewhere_cannot_be_changed_here(tmp_path, kernels) -> None:
    store = store_of(tmp_path)
    open_device_master(store, CPU, "device", 0)
    with pytest.raises(ValueError, match="read-only"):
        store.master[0] = 1
    assert store.update([]).norm == 0 and store.digest() == store_of(tmp_path).digest()


def test_theta_comes_back_with_its_updates(tmp_path, kernels) -> None:
    here, there = store_of(tmp_path), store_of(tmp_path)
    open_device_master(there, CPU, "device", 0)
    for store in (here, there):
        store.update(TERMS)
    there.follow(None)
    for store in (here, there):
        store.update(TERMS)
        store.master[0] += 1
    assert here.master.tobytes() == there.master.tobytes() and here.digest() == there.digest()


def test_wrong_kernels_are_not_used(tmp_path, kernels, driver: ctypes.CDLL) -> None:
    driver.host_driver_falsify(1)
    try:
        with pytest.raises(EngineError, match=r"give other bits than those of the host; engine.master=host does without"):
            open_device_master(store_of(tmp_path), CPU, "device", 0)
    finally:
        driver.host_driver_falsify(0)


def test_what_cannot_be_had_is_said(tmp_path, kernels, driver: ctypes.CDLL) -> None:
    store = store_of(tmp_path)
    assert open_device_master(store, CPU, "host", 2**40) == (None, "")
    assert open_device_master(store, CPU, "auto", 2**40) == (None, "")  # not a GPU
    driver.host_driver_context(0)
    try:
        with pytest.raises(EngineError, match=r"engine.master is device, but: no CUDA context"):
            open_device_master(store, CPU, "device", 0)
    finally:
        driver.host_driver_context(1)
    store.master[0] = 1  # still here
