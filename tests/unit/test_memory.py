"""A run that this machine has no memory for is refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from es_mpi import devices
from es_mpi.config import Config, load_config
from es_mpi.devices import GIB, Device, host_bytes, installed_gpu
from es_mpi.engine.toy import write_toy_model
from es_mpi.errors import UsageError
from es_mpi.params.layout import Layout, read_layout
from es_mpi.planning import memory_of, model_size
from es_mpi.runner.memory import require_memory

PHASES = {
    "es": {"kind": "es", "updates": 1, "population": 4},
    "grpo": {"kind": "grpo", "updates": 1},
}


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Config, Layout]]:
    """A config of one phase and its model's layout, on a machine of so many bytes and with such a GPU."""
    write_toy_model(tmp_path / "model")
    monkeypatch.setattr(devices, "installed_gpu", lambda env: None)

    def make(phase: str, **engine: object) -> tuple[Config, Layout]:
        config = load_config({
            "model": {"path": str(tmp_path / "model")}, "task": {"name": "largest"}, "phases": {"p": PHASES[phase]},
            "engine": {"kv_cache_gib": 0.5, **engine},
        })  # fmt: skip
        return config, read_layout(tmp_path / "model", config.model.include, config.model.exclude)

    return make


def test_all_ranks_of_the_machine_count(needed: Callable[..., tuple[Config, Layout]], monkeypatch: pytest.MonkeyPatch) -> None:
    config, layout = needed("es")
    one = memory_of(config, model_size(layout, "bfloat16"), None).host
    monkeypatch.setattr(devices, "host_bytes", lambda: 2 * one)
    for name, value in (("RANK", "0"), ("SIZE", "4"), ("LOCAL_RANK", "0"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    require_memory(config, layout)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3")
    with pytest.raises(UsageError, match=r"3 rank\(s\) on this machine do not fit") as refused:
        require_memory(config, layout)
    assert refused.value.key == "model.path" and "fewer ranks" in str(refused.value)


def test_a_gradient_phase_needs_room_beside_the_engine(
    needed: Callable[..., tuple[Config, Layout]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Device("H100", 0.0, 0.0, 0.5 + 2e-4)  # room for the KV cache, 200 KiB more, and no copies of the model
    monkeypatch.setattr(devices, "installed_gpu", lambda env: gpu)
    require_memory(*needed("es", gpu_memory_utilization=0.9))
    gpu = Device("H100", 0.0, 0.0, 0.5 + 2e-5)
    with pytest.raises(UsageError, match="do not fit into one H100") as refused:
        require_memory(*needed("grpo", gpu_memory_utilization=0.9))
    assert refused.value.key == "engine.gpu_memory_utilization" and "or lower" in str(refused.value)


def test_the_toy_needs_nothing(needed: Callable[..., tuple[Config, Layout]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "host_bytes", lambda: 1)
    require_memory(*needed("es", kind="toy"))


@pytest.mark.parametrize(("text", "expected"), [("1048576\n", 1048576), ("max\n", None), (None, None), ("9" * 20, None)])
def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int | None
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(devices, "LIMIT_FILE", tmp_path / "none")
    whole = host_bytes()
    assert whole > GIB
    monkeypatch.setattr(devices, "LIMIT_FILE", limit)
    if text is not None:
        limit.write_text(text)
    assert host_bytes() == (expected or whole)


@pytest.mark.parametrize(
    ("tool", "env", "expected"),
    [
        ("echo 'NVIDIA A100-SXM4-80GB, 81920'; echo 'NVIDIA A10, 23028'", {}, ("NVIDIA A10", 23028 / 1024)),
        ("echo 'NVIDIA A10, 23028'", {"CUDA_VISIBLE_DEVICES": ""}, None),
        ("echo 'NVIDIA A10, [Unknown Error]'", {}, None),
        ("echo no driver; exit 9", {}, None),
        ("", {}, None),
    ],
)
def test_the_smallest_gpu_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, env: dict[str, str], expected: tuple[str, float] | None
) -> None:
    stand_in = tmp_path / "nvidia-smi"
    stand_in.write_text(f"#!/bin/sh\n{tool}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = installed_gpu(env)
    assert (found and (found.name, found.memory_gib)) == expected


def test_without_the_tool_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_gpu({}) is None
