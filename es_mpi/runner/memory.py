"""Whether a run fits into this machine, found before a weight is loaded: a rank that the kernel ends can say nothing."""

from __future__ import annotations

import os

from es_mpi import devices, planning
from es_mpi.comm.launcher import detect
from es_mpi.config.schema import Config
from es_mpi.errors import UsageError
from es_mpi.params.layout import Layout


def require_memory(config: Config, layout: Layout) -> None:
    """Raises UsageError where the ranks of this machine need more memory than it or its GPU has, by the plan's figures."""
    if config.engine.kind == "toy":
        return
    launch, gpu = detect(os.environ), devices.installed_gpu(os.environ)
    need = planning.memory_of(config, planning.model_size(layout, config.model.dtype), gpu)
    ranks = (launch.local_size if launch else None) or 1
    if ranks * need.host > devices.host_bytes():
        raise UsageError(
            f"{ranks} rank(s) on this machine do not fit into its memory",
            value=f"{_gib(ranks * need.host)} needed", expected=f"at most {_gib(devices.host_bytes())}", key="model.path",
            remedy="fewer ranks a machine, engine.kv_cache_gib lower, or a smaller model; es-mpi plan shows the parts",
        )  # fmt: skip
    room = int((gpu.memory_gib or 0.0) * devices.GIB) if gpu else 0
    if gpu and need.gpu > room:
        share = (room - need.training) / room
        lower = f"engine.gpu_memory_utilization={share:.2f} or lower, " if share > 0 else ""
        raise UsageError(
            f"engine and training of a rank do not fit into one {gpu.name}",
            value=f"{_gib(need.gpu)} needed, {_gib(need.training)} of it for gradient phases", expected=f"at most {_gib(room)}",
            key="engine.gpu_memory_utilization", remedy=f"{lower}a smaller model, or phases without gradients (kind: es)",
        )  # fmt: skip


def _gib(count: int) -> str:
    return f"{count / devices.GIB:.1f} GiB"
