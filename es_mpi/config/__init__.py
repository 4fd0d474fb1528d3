"""The config: schema, loading, identity."""

from es_mpi.config.identity import diff_relevant, fingerprint
from es_mpi.config.load import RESOLVED_NAME, load_config, load_resolved, to_yaml
from es_mpi.config.schema import (
    CheckpointConfig,
    CommConfig,
    Config,
    EngineConfig,
    EsPhase,
    EvalConfig,
    ModelConfig,
    MonitorConfig,
    RunConfig,
    SamplingConfig,
    TaskConfig,
)

__all__ = [
    "RESOLVED_NAME",
    "CheckpointConfig",
    "CommConfig",
    "Config",
    "EngineConfig",
    "EsPhase",
    "EvalConfig",
    "ModelConfig",
    "MonitorConfig",
    "RunConfig",
    "SamplingConfig",
    "TaskConfig",
    "diff_relevant",
    "fingerprint",
    "load_config",
    "load_resolved",
    "to_yaml",
]
