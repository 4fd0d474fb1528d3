"""`es-mpi probe`: the engine opened as for training, alone or on ranks; nothing is written."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from es_mpi.analysis.probe import Facts, probe
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.comm.agree import agree_fields
from es_mpi.comm.port import Comm
from es_mpi.config.load import load_config
from es_mpi.config.schema import Config, EsPhase
from es_mpi.engine.device import choose_device
from es_mpi.engine.open import open_engine
from es_mpi.errors import EXIT_OK, UsageError, did_you_mean
from es_mpi.params.store import MasterStore
from es_mpi.phases.context import RunContext
from es_mpi.runner.prepare import Prepared, facts, prepare, threads
from es_mpi.runner.start import guarded_run, note_to, stage

FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the phase's sigma: the grid where none is given


def probe_sigmas(
    config_path: str, overrides: Sequence[str], *, phase: str | None, sigmas: Sequence[float], population: int, repeats: int,
    show: Callable[[Facts], None],
) -> int:  # fmt: skip
    """Measure each of `sigmas` (none: FACTORS times the phase's own). Rank 0 calls `show`. Returns the exit code."""

    def work(comm: Comm) -> int:
        def check() -> tuple[Prepared, EsPhase]:
            config = load_config(config_path, overrides)
            return prepare(config, RunFolder(Path(config.run.dir) / config.run.name)), _phase(config, phase)

        prepared, chosen = stage(comm, check)
        agree_fields(comm, "the start of the probe", facts(prepared))
        comm.deadline_s = prepared.config.comm.deadline_s
        grid = sigmas or [factor * chosen.sigma for factor in FACTORS]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            found = _measure(comm, prepared, Path(scratch) / "engine.log", grid, population, repeats)
        if found:
            show({**found, "configured": chosen.sigma, "seconds": round(time.perf_counter() - began, 1)})
        return EXIT_OK

    return guarded_run(work)


def _phase(config: Config, name: str | None) -> EsPhase:
    """The named phase, or the first of the pipeline that has a sigma."""
    if name is not None and name not in config.phases:
        raise UsageError("no such phase", value=name, key="--phase", remedy=did_you_mean(name, config.phases))
    named = [config.phases[one] for one in ([name] if name else config.pipeline)]
    found = next((phase for phase in named if isinstance(phase, EsPhase)), None)
    if found is None:
        raise UsageError("no ES phase to find a sigma for", value=name or list(config.pipeline), key="--phase")
    return found


def _progress(text: str) -> None:
    print(f"probe: {text}", file=sys.stderr, flush=True)


def _measure(comm: Comm, prepared: Prepared, log: Path, sigmas: Sequence[float], population: int, repeats: int) -> Facts | None:
    config = prepared.config
    choose_device(os.environ)
    prepared.grading.start(note_to(log), log)
    engine = open_engine(config, MasterStore(prepared.layout, threads(config)), log)
    try:
        context = RunContext(config.run.seed, comm, engine, prepared.batches, prepared.grading, prepared.sampling)
        return probe(context, sigmas, population, repeats, _progress if comm.rank == 0 else lambda text: None)
    finally:
        engine.close()
        prepared.grading.close()
