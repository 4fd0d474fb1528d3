"""The arithmetic of planning, against sums done by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from es_mpi.config import Config, load_config
from es_mpi.devices import GPUS, find_gpu
from es_mpi.errors import UsageError
from es_mpi.planning import GIB, ModelSize, Plan, PromptSize, evaluations, kv_bytes, plan

TEXT = """\
model: {path: models/tiny}
task: {name: largest, batch_size: 48}
sampling: {max_tokens: 16}
phases:
  warm: {kind: es, updates: 12, population: 16}
eval: {every: 5, problems: 100}
"""
MODEL = ModelSize(parameters=1_000_000, elements=1_001_472, largest=200_000, tied_embedding=200_000, kv_bytes=1024)
PROMPT = PromptSize(own=10, shared=50)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    return load_config(path)


def planned(config: Config, model: ModelSize = MODEL, ranks: int = 2, gpu: str | None = None, cores: int = 1) -> Plan:
    return plan(config, model, PROMPT, ranks, GPUS[gpu] if gpu else None, cores)


def changed(config: Config, **warm: object) -> Config:
    return dataclasses.replace(config, phases={"warm": dataclasses.replace(config.phases["warm"], **warm)})


def test_memory_of_a_cpu_rank(config: Config) -> None:
    memory = planned(config).memory
    assert memory.master == 4 * 1_001_472
    assert memory.engine == 2 * (1_000_000 + 200_000 + 200_000)  # weights, packed tied head, scratch of the largest tensor
    assert (memory.kv_cache, memory.gpu) == (GIB, 0)
    assert memory.host == memory.master + memory.engine + memory.kv_cache + memory.process


def test_memory_of_a_gpu_rank(config: Config) -> None:
    memory = planned(config, gpu="H100").memory
    assert memory.engine == 2 * (1_000_000 + 200_000)
    assert memory.device_master == memory.master == 4 * 1_001_472
    assert memory.gpu == memory.device_master + memory.engine + memory.kv_cache == int(80 * 0.85 * GIB)
    assert memory.host == memory.master + memory.process


@pytest.mark.parametrize(
    ("choice", "billions", "there"), [("auto", 8, True), ("auto", 10, False), ("device", 10, True), ("host", 1, False)]
)
def test_the_master_lives_on_a_gpu_that_has_room(config: Config, choice: str, billions: int, there: bool) -> None:
    config = dataclasses.replace(config, engine=dataclasses.replace(config.engine, master=choice))
    model = dataclasses.replace(MODEL, parameters=billions * 10**9, elements=billions * 10**9)
    with_gpu, without = planned(config, model, gpu="H100"), planned(config, model)
    assert with_gpu.memory.device_master == (with_gpu.memory.master if there else 0)
    assert (with_gpu.phases[0].load_s < without.phases[0].load_s / 10) == there
    assert without.memory.device_master == 0


@pytest.mark.parametrize(("ranks", "members"), [(1, 16), (2, 8), (3, 6), (5, 4), (16, 1), (20, 1)])
def test_shares_and_bytes(config: Config, ranks: int, members: int) -> None:
    (phase,) = planned(config, ranks=ranks).phases
    assert (phase.members_per_rank, phase.responses, phase.bytes_per_rank) == (members, 16 * 48, 16 * 16)
    assert (phase.idle_s > 0) == (16 % ranks != 0)


def test_bytes_do_not_grow_with_the_model(config: Config) -> None:
    big = dataclasses.replace(MODEL, parameters=10**10, elements=10**10)
    assert planned(config, big).phases[0].bytes_per_rank == planned(config).phases[0].bytes_per_rank


@pytest.mark.parametrize(
    ("updates", "every", "before", "after", "count"),
    [(12, 0, True, True, 2), (12, 5, True, True, 4), (12, 4, True, True, 4), (12, 4, False, False, 2), (0, 4, True, True, 1)],
)
def test_evaluations(config: Config, updates: int, every: int, before: bool, after: bool, count: int) -> None:
    assert evaluations(updates, dataclasses.replace(config.eval, every=every, before=before, after=after)) == count


def test_seconds_follow_the_work(config: Config) -> None:
    base = planned(config).phases[0]
    assert planned(config, ranks=4).phases[0].generate_s == pytest.approx(base.generate_s / 2)
    assert planned(config, cores=2).phases[0].update_s == pytest.approx(base.update_s / 2)
    assert planned(changed(config, estimator="antithetic")).phases[0].update_s == pytest.approx(base.update_s / 2)
    longer = dataclasses.replace(config, sampling=dataclasses.replace(config.sampling, max_tokens=32))
    assert planned(longer).phases[0].generate_s > 1.5 * base.generate_s
    assert planned(config).total_s == pytest.approx(12 * base.step_s + 4 * planned(config).evaluation_s)


def test_prefix_caching_saves_the_shared_part(config: Config) -> None:
    plain = dataclasses.replace(config, engine=dataclasses.replace(config.engine, prefix_caching=False))
    assert planned(plain).phases[0].generate_s > planned(config).phases[0].generate_s


def test_what_binds(config: Config) -> None:
    assert planned(config).binds == "generation"
    assert "ranks wait" in planned(config, ranks=15).binds and "population" in planned(config, ranks=15).remedy
    one_token = dataclasses.replace(config, sampling=dataclasses.replace(config.sampling, max_tokens=1))
    huge = dataclasses.replace(MODEL, parameters=10**9, elements=10**9)
    assert "update" in planned(changed(one_token, population=512), huge, ranks=512, gpu="H100").binds
    assert "memory" in planned(config, dataclasses.replace(MODEL, parameters=10**11), gpu="H100").binds
    assert "KV cache" in planned(config, dataclasses.replace(MODEL, kv_bytes=10**8)).binds


def test_kv_bytes_of_known_models() -> None:
    smollm2 = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576, "num_hidden_layers": 30}
    assert kv_bytes(smollm2, 2) == 2 * 30 * 3 * 64 * 2
    assert (
        kv_bytes({"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2, "head_dim": 32}, 4) == 2 * 2 * 4 * 32 * 4
    )
    assert kv_bytes({"model_type": "es_mpi_toy"}, 4) == 0
    with pytest.raises(UsageError, match="H100"):
        find_gpu("H10")
    assert find_gpu("h100").name == "H100"
