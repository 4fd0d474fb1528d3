"""What a config points at, looked at without loading it, and what is odd about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from es_mpi.config import Config
from es_mpi.params.layout import Layout, read_config, read_layout
from es_mpi.params.source import is_hub_id


def layout_of(config: Config) -> Layout | None:
    """The parameters of the config's model from the headers of its weights; None where there is no folder to look at
    (a hub id). Raises UsageError for a missing, broken or quantised model folder."""
    if is_hub_id(config.model.path):
        return None
    return read_layout(config.model.path, config.model.include, config.model.exclude)


def warnings(config: Config, layout: Layout | None) -> Iterator[str]:
    """What is allowed, but rarely meant."""
    folder = Path(config.run.dir) / config.run.name
    if folder.exists():
        yield f"run.name: {folder} exists: es-mpi train will refuse it; es-mpi resume continues it"
    if layout is not None:
        most = read_config(layout.folder).get("max_position_embeddings")
        if isinstance(most, int) and config.model.max_model_len > most:
            yield f"model.max_model_len: {config.model.max_model_len} is beyond the model's {most} positions"
        fixed = layout.parameters - layout.trained_parameters
        if fixed:
            yield f"model.include / model.exclude: {fixed:,} parameters stay as they are"
    for name, phase in config.phases.items():
        if name not in config.pipeline:
            yield f"pipeline: phase {name} is not in it and will not run"
        if phase.alpha == 0 or phase.updates == 0:
            yield f"phases.{name}: alpha or updates is 0: no weight will move"
