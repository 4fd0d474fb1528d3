"""train, examine, resume and replay: how a run is opened, and the one place where its parts are put together."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import es_mpi
from es_mpi.checkpoint.files import new_folder
from es_mpi.checkpoint.folder import checkpoints, clean, require_space
from es_mpi.checkpoint.journal import cut, read_journal
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.comm.agree import agree_fields
from es_mpi.comm.port import Comm
from es_mpi.config.identity import diff_relevant
from es_mpi.config.load import load_config, load_resolved, to_yaml
from es_mpi.config.schema import Config
from es_mpi.engine.device import choose_device
from es_mpi.engine.open import open_engine
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.monitoring.monitor import Monitor
from es_mpi.params.hf_folder import folder_bytes, save_folder
from es_mpi.params.layout import read_layout
from es_mpi.params.source import resolve
from es_mpi.params.store import MasterStore
from es_mpi.runner.prepare import Prepared, facts, prepare, threads
from es_mpi.runner.restore import Record, rebuildable, replay_terms, restore, upto
from es_mpi.runner.scribe import Scribe
from es_mpi.runner.session import Session
from es_mpi.runner.start import guarded_run, note_to, stage


def train(config_path: str, overrides: Sequence[str] = ()) -> int:
    """Start a new run. Returns the exit code; every error of the input is found before anything is written."""

    def work(comm: Comm) -> int:
        def check() -> Prepared:
            config = load_config(config_path, overrides)
            folder = RunFolder(Path(config.run.dir) / config.run.name)
            folder.refuse_existing()
            return prepare(config, folder)

        prepared = stage(comm, check)
        agree_fields(comm, "the start of the run", facts(prepared))
        stage(comm, lambda: prepared.folder.create(to_yaml(prepared.config)) if comm.rank == 0 else None)
        with _locked(comm, prepared.folder):
            return _attempt(comm, prepared, [])

    return guarded_run(work)


def examine(config_path: str, overrides: Sequence[str] = ()) -> int:
    """All that `train` checks before it writes anything, on every rank, and nothing else. Rank 0 prints what they agree on."""

    def work(comm: Comm) -> int:
        def check() -> Prepared:
            config = load_config(config_path, overrides)
            return prepare(config, RunFolder(Path(config.run.dir) / config.run.name))

        prepared = stage(comm, check)
        agree_fields(comm, "the start of the run", facts(prepared))
        if comm.rank == 0:
            print(f"{comm.size} rank(s) are ready to train {config_path}, on {', '.join(sorted(set(comm.hosts)))}", flush=True)
        return EXIT_OK

    return guarded_run(work)


def resume(run_dir: str, overrides: Sequence[str] = (), force: Sequence[str] = ()) -> int:
    """Continue a run on any number of ranks. Keys that change results are refused unless `force` names them."""

    def work(comm: Comm) -> int:
        folder = RunFolder(Path(run_dir))

        def check() -> tuple[Prepared, Sequence[Record]]:
            config = load_resolved(run_dir, overrides)
            _refuse_changes(load_resolved(run_dir), config, force)
            return prepare(config, folder), rebuildable(folder, _records(folder))

        with _locked(comm, folder):
            prepared, records = stage(comm, check)
            agree_fields(comm, "the resumed run", {**facts(prepared), "recorded steps": str(len(records))})
            if comm.rank == 0:
                folder.write_config(to_yaml(prepared.config))  # later commands go by what this attempt was told
                if folder.journal.exists():
                    cut(folder.journal, len(records))
            return _attempt(comm, prepared, records)

    return guarded_run(work)


def replay(run_dir: str, step: int, out: str) -> int:
    """Rebuild the weights of one recorded step as a model folder, from the base model and the journal alone."""
    folder, target = RunFolder(Path(run_dir)), Path(out)
    folder.require()
    config = load_resolved(run_dir)
    records = upto(read_journal(folder.journal), step)
    with new_folder(target, key="--out") as partial:
        layout = read_layout(resolve(config.model.path), config.model.include, config.model.exclude)
        require_space(partial, folder_bytes(layout), key="--out")
        store = MasterStore(layout, threads(config))
        if all("terms" in record for record in records):
            replay_terms(store, records)  # from the base model alone
        else:
            restore(store, folder, records)
        save_folder(layout, store.master, partial)
    print(f"step {step} of {folder.path}: digest {store.digest()}, written to {target}")
    return EXIT_OK


def _locked(comm: Comm, folder: RunFolder) -> AbstractContextManager[object]:
    """Rank 0's lock on a run folder, which must exist. A killed job lets go of it by itself."""

    def lock() -> AbstractContextManager[object]:
        folder.require()
        return folder.lock() if comm.rank == 0 else nullcontext()

    return stage(comm, lock)


def _attempt(comm: Comm, prepared: Prepared, records: Sequence[Record]) -> int:
    """From the engine's start to the end of the run, or to the next interruption."""
    config, folder = prepared.config, prepared.folder
    comm.deadline_s = config.comm.deadline_s
    comm.tolerant = comm.tolerant and config.comm.fault_tolerance == "auto"
    number = folder.open_attempt() if comm.rank == 0 else 0
    attempt = int(comm.broadcast("attempt number", str(number).encode() if comm.rank == 0 else None))
    log = folder.rank_log(attempt, comm.rank)
    note = note_to(log)
    scribe = Scribe(folder, config.monitor, prepared.total)
    if comm.rank == 0:
        scribe.open_monitor(len(records), resumed=attempt > 1)
        scribe.open_journal(len(records))
        clean(folder.path)
    choose_device(os.environ)
    began = time.perf_counter()
    for grading in prepared.gradings:
        grading.start(note, log)  # before the engine, behind whose start theirs hides
    store = MasterStore(prepared.layout, threads(config))
    for text in restore(store, folder, records):
        scribe.monitor.warn(text)
    engine = open_engine(config, store, log)
    gc.enable()
    notes = [*prepared.notes, *engine.notes]
    _announce(comm, scribe.monitor, prepared, len(records), time.perf_counter() - began, log, notes)
    session = Session(comm, prepared, engine, scribe, done=len(records), digest=store.digest())
    try:
        return session.run()
    finally:
        scribe.close()
        engine.close()
        for grading in prepared.gradings:
            grading.close()


def _announce(
    comm: Comm, monitor: Monitor, prepared: Prepared, done: int, seconds: float, log: Path, notes: Sequence[str]
) -> None:
    config = prepared.config
    monitor.note(
        f"es_mpi {es_mpi.__version__}: {config.model.path}, {prepared.layout.parameters / 1e6:.1f} M parameters, "
        f"{comm.size} rank(s) with {threads(config)} thread(s), engine ready in {seconds:.1f} s"
    )
    monitor.note(f"run folder {prepared.folder.path}, engine log {log}")
    for text in notes:
        monitor.warn(text)
    if done:
        monitor.note(f"continuing after step {done} of {prepared.total}")


def _records(folder: RunFolder) -> list[Record]:
    """The journal's records: none where the run was stopped before its first step."""
    records = list(read_journal(folder.journal)) if folder.journal.exists() else []
    if not records and checkpoints(folder.path):
        raise UsageError(
            "the run has checkpoints but no step in its journal, and would start again from the base model",
            value=str(folder.journal),
            remedy="put the journal back, or start a new run with model.path set to the newest checkpoint",
        )
    return records


def _refuse_changes(old: Config, new: Config, force: Sequence[str]) -> None:
    changed = [key for key in diff_relevant(old, new) if key not in force]
    if changed:
        raise UsageError(
            f"a resumed run cannot change what decides its results: {', '.join(changed)}",
            expected="only keys that change speed, display or folders",
            remedy=f"start a new run, or insist: --force {' --force '.join(changed)}",
        )
