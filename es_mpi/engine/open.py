"""Make the engine that a config asks for."""

from __future__ import annotations

from pathlib import Path

from es_mpi.config.schema import Config
from es_mpi.engine.port import Engine
from es_mpi.params.store import MasterStore


def open_engine(config: Config, store: MasterStore, log: Path) -> Engine:
    """The engine of this rank, holding theta. Raises EngineError when it does not start or fails its self-test."""
    if config.engine.kind == "toy":
        from es_mpi.engine.toy import ToyEngine

        return ToyEngine(store)
    from es_mpi.engine.vllm import VllmEngine

    return VllmEngine(config.model, config.engine, store, log)
