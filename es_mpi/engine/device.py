"""Give each rank of a node its own accelerator, before anything that could touch one is imported."""

from __future__ import annotations

from collections.abc import MutableMapping

from es_mpi.comm.launcher import detect

VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_device(env: MutableMapping[str, str]) -> str | None:
    """Narrow CUDA_VISIBLE_DEVICES to this rank's device by its local rank; returns it, or None where nothing is to choose.

    A launcher that already shows each rank one device is left alone, and so is a rank without neighbours. Without
    GPUs the variable has no effect.
    """
    launch = detect(env)
    if launch is None or launch.local_rank is None or (launch.local_size or 1) == 1:
        return None
    shown = [device for device in env.get(VISIBLE, "").split(",") if device]
    if len(shown) == 1:
        return shown[0]
    env[VISIBLE] = shown[launch.local_rank % len(shown)] if shown else str(launch.local_rank)
    return env[VISIBLE]
