"""Analyses on the engine, opened as for training, alone or on ranks; nothing is written."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from es_mpi.analysis.diversity import Ensemble, diversity
from es_mpi.analysis.mirrored import mirrored
from es_mpi.analysis.probe import probe
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

Facts = dict[str, Any]
Tell = Callable[[str], None]
Work = Callable[[RunContext, EsPhase, Sequence[float], Tell], Facts | None]


def probe_sigmas(
    config_path: str, overrides: Sequence[str], *, phase: str | None, sigmas: Sequence[float], population: int, repeats: int,
    show: Callable[[Facts], None],
) -> int:  # fmt: skip
    """Measure each of `sigmas` (none: FACTORS times the phase's own). Rank 0 calls `show`. Returns the exit code."""

    def work(run: RunContext, chosen: EsPhase, grid: Sequence[float], tell: Tell) -> Facts | None:
        found = probe(run, grid, population, repeats, tell)
        return None if found is None else {**found, "configured": chosen.sigma}

    return _measured("probe", config_path, overrides, phase, sigmas, work, show)


def measure_diversity(
    config_path: str, overrides: Sequence[str], *, phase: str | None, sigmas: Sequence[float], members: int, samples: int,
    prompts: int, fisher_sigma: float | None, draws: int, show: Callable[[Facts], None],
) -> int:  # fmt: skip
    """The members' diversity at each of `sigmas` on `prompts` problems of the first batch, and over `draws` (0: not) what
    mirrored members are good for at the phase's sigma. Rank 0 calls `show`. Returns the exit code."""

    def work(run: RunContext, chosen: EsPhase, grid: Sequence[float], tell: Tell) -> Facts | None:
        ensemble = Ensemble(run, members, samples, run.batches.at(0).problems[:prompts])
        found = diversity(ensemble, grid, fisher_sigma or min(grid), chosen.population, tell)
        pairs = mirrored(run, chosen.sigma, draws) if draws else None
        return None if found is None else {**found, "mirrored_sigma": chosen.sigma, "draws": draws, "mirrored": pairs or []}

    return _measured("diversity", config_path, overrides, phase, sigmas, work, show, room=1)


def _measured(
    what: str, config_path: str, overrides: Sequence[str], phase: str | None, sigmas: Sequence[float], work: Work,
    show: Callable[[Facts], None], room: int = 0,
) -> int:  # fmt: skip
    """Do `work` on an open engine. `room` are the tokens that it needs behind a response."""

    def on_rank(comm: Comm) -> int:
        def check() -> tuple[Prepared, EsPhase]:
            config = load_config(config_path, overrides)
            prepared = prepare(config, RunFolder(Path(config.run.dir) / config.run.name))
            _require_room(prepared, room)
            return prepared, _phase(config, phase)

        prepared, chosen = stage(comm, check)
        agree_fields(comm, f"the start of the {what}", facts(prepared))
        comm.deadline_s = prepared.config.comm.deadline_s
        grid = sigmas or [factor * chosen.sigma for factor in FACTORS]
        began = time.perf_counter()

        def tell(text: str) -> None:
            if comm.rank == 0:
                print(f"{what}: {text}", file=sys.stderr, flush=True)

        with tempfile.TemporaryDirectory() as scratch:
            found = _opened(comm, prepared, Path(scratch) / "engine.log", lambda run: work(run, chosen, grid, tell))
        if found:
            show({**found, "seconds": round(time.perf_counter() - began, 1)})
        return EXIT_OK

    return guarded_run(on_rank)


def _phase(config: Config, name: str | None) -> EsPhase:
    """The named phase, or the first of the pipeline that has a sigma."""
    if name is not None and name not in config.phases:
        raise UsageError("no such phase", value=name, key="--phase", remedy=did_you_mean(name, config.phases))
    named = [config.phases[one] for one in ([name] if name else config.pipeline)]
    found = next((phase for phase in named if isinstance(phase, EsPhase)), None)
    if found is None:
        raise UsageError("no ES phase to find a sigma for", value=name or list(config.pipeline), key="--phase")
    return found


def _require_room(prepared: Prepared, room: int) -> None:
    model = prepared.config.model
    needed = max(len(prompt.token_ids) for prompt in prepared.batches.prompts) + prepared.sampling.max_tokens + room
    if room and needed > model.max_model_len:
        raise UsageError(
            "leaves no room for the token that the engine adds to a given response", value=model.max_model_len,
            expected=f"at least {needed}", key="model.max_model_len",
        )  # fmt: skip


def _opened(comm: Comm, prepared: Prepared, log: Path, work: Callable[[RunContext], Facts | None]) -> Facts | None:
    config = prepared.config
    choose_device(os.environ)
    prepared.grading.start(note_to(log), log)
    engine = open_engine(config, MasterStore(prepared.layout, threads(config)), log)
    try:
        return work(RunContext(config.run.seed, comm, engine, prepared.batches, prepared.grading, prepared.sampling))
    finally:
        engine.close()
        prepared.grading.close()
