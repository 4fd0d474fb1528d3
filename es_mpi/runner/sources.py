"""What a command calls MODEL: a model folder or hub id, a run (its newest checkpoint or any step), or one of its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from es_mpi.analysis.weights import MasterWeights, StoredWeights, Weights, first_difference, require_same_tensors
from es_mpi.checkpoint.folder import MANIFEST, find_newest, step_of
from es_mpi.checkpoint.journal import read_journal
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.checkpoint.weights import map_master
from es_mpi.config.load import load_resolved
from es_mpi.config.schema import Config
from es_mpi.errors import UsageError
from es_mpi.params.layout import read_layout
from es_mpi.params.source import is_hub_id, resolve
from es_mpi.params.store import MasterStore
from es_mpi.runner.prepare import threads
from es_mpi.runner.restore import Record, restore, upto


@dataclass(frozen=True)
class Source:
    """Weights and where they come from. Of a run: its config and the records of the updates that made them."""

    name: str
    weights: Weights
    config: Config | None = None
    records: Sequence[Record] = ()

    @property
    def step(self) -> int | None:
        return len(self.records) if self.config else None


def open_source(name: str, step: int | None = None) -> Source:
    """A run's weights are its exact fp32 master, mapped from the checkpoint of that step, or rebuilt in memory where there is
    none. Raises UsageError for what is neither run nor model, and for a step that does not exist."""
    path = Path(name)
    folder = RunFolder(path)
    if folder.config.is_file():
        return _run(folder, step)
    run = RunFolder(path.resolve().parent.parent)
    if (path / MANIFEST).is_file() and run.config.is_file():
        if step not in (None, step_of(path)):
            raise UsageError("the checkpoint is of another step", value=step, expected=str(step_of(path)), key="--step")
        return _run(run, step_of(path))
    if step is not None:
        raise UsageError("only a run has steps", value=step, key="--step", remedy=f"leave it out: {name} is no run folder")
    return Source(name, StoredWeights(read_layout(resolve(name))))


def _run(folder: RunFolder, step: int | None) -> Source:
    config, journal = load_resolved(folder.path), read_journal(folder.journal)
    newest, _ = find_newest(folder.path, at_most=len(journal) if step is None else len(upto(journal, step)))
    if step is None:
        step = newest.step if newest else len(journal)
    records, patterns = upto(journal, step), (config.model.include, config.model.exclude)
    if newest and newest.step == step:
        layout = read_layout(newest.path, *patterns)
        return Source(str(newest.path), MasterWeights(layout, map_master(newest.path)), config, records)
    store = MasterStore(read_layout(resolve(config.model.path), *patterns), threads(config))
    restore(store, folder, records)
    return Source(f"{folder.path} step {step}", MasterWeights(store.layout, store.master), config, records)


def require_base(base: Weights, source: Source) -> None:
    """Raises UsageError unless `base` has the tensors of the model and, where that is a run's, the weights it began with."""
    require_same_tensors(base.layout, source.weights.layout)
    if source.config is None:
        return
    own = source.config.model.path
    if not is_hub_id(own) and not Path(own).is_dir():
        raise UsageError(
            "the base model of the run is gone", value=own, key="model.path", remedy="put it back there: BASE is compared with it"
        )
    begun = StoredWeights(read_layout(resolve(own)))
    if begun.layout.folder.resolve() == base.layout.folder.resolve():
        return
    require_same_tensors(base.layout, begun.layout)
    different = first_difference(base, begun)
    if different is not None:
        raise UsageError(
            f"not the model that {source.name} began with: tensor {different} differs",
            value=str(base.layout.folder),
            expected=own,
            key="BASE",
            remedy="name that model; es-mpi replay makes a plain folder, which may be compared with any",
        )
