"""One update against the bare generation of the same tokens, as a ratio within one process."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.comm.single import SingleComm
from es_mpi.config.schema import Config, EsPhase
from es_mpi.engine.device import choose_device
from es_mpi.engine.open import open_engine
from es_mpi.engine.port import Engine
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.estimator import estimate
from es_mpi.params.store import MasterStore
from es_mpi.phases.context import RunContext, Tally
from es_mpi.phases.es import respond, score
from es_mpi.population import members
from es_mpi.runner.prepare import prepare, threads

ROUNDS = 3


def run(config: Config) -> int:
    """One update's time over that of generating the same tokens with the bare engine, medians of interleaved rounds.

    A round scores the first phase's whole population: each member is evaluated as in training, then its responses are
    generated once more with nothing else done. Nothing is written to the run folder.
    """
    with tempfile.TemporaryDirectory() as scratch:
        prepared = prepare(config, RunFolder(Path(scratch) / "run"))
        choose_device(os.environ)
        began = time.perf_counter()
        prepared.grading.start(lambda text: None)
        engine = open_engine(config, MasterStore(prepared.layout, threads(config)), Path(scratch) / "engine.log")
        opened = time.perf_counter() - began
        context = RunContext(
            config.run.seed, SingleComm(config.comm.deadline_s), engine, prepared.batches, prepared.grading, prepared.sampling
        )
        phase = config.phases[config.pipeline[0]]
        if not isinstance(phase, EsPhase):
            raise UsageError("this bench times members of a population", value=phase.kind, expected="es", key="pipeline")
        rounds = [_round(context, engine, phase, number) for number in range(ROUNDS)]
        engine.close()
        prepared.grading.close()
    _print(phase, prepared.layout.parameters, opened, rounds)
    return EXIT_OK


def _round(context: RunContext, engine: Engine, phase: EsPhase, number: int) -> dict[str, float]:
    """Seconds of one update by part, of the bare generation, and their ratio."""
    tally, bare, scores = Tally(), 0.0, []
    batch = context.batches.at(number)
    population = members(context.run_seed, number, phase.population, phase.estimator)
    for member in population:
        pending = respond(context, member, phase.sigma, batch, tally)
        with tally.timed("grade"):
            scores.append(score(member, pending(), 1.0, tally))
        engine.drop_caches()
        bare += _seconds(lambda: engine.generate(batch.prompts, context.sampling, batch.seeds))
    result = estimate(
        population,
        scores,
        estimator=phase.estimator,
        shaping=phase.shaping,
        alpha=phase.alpha,
        min_valid=phase.min_valid,
    )
    with tally.timed("update"):
        engine.store.update(result.terms)
        engine.store.digest()
    parts = {name.removeprefix("time/"): value for name, value in tally.values.items() if name.startswith("time/")}
    return {**parts, "bare": bare, "ratio": sum(parts.values()) / bare, "tokens": tally.values["tokens"]}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _print(phase: EsPhase, parameters: int, opened: float, rounds: list[dict[str, float]]) -> None:
    median = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    print(f"{parameters / 1e6:.1f} M parameters, {phase.population} members, engine ready in {opened:.1f} s")
    for name in ("load", "generate", "grade", "update", "bare"):
        print(f"  {name:<9}{median[name]:9.3f} s")
    ratios = ", ".join(f"{one['ratio']:.3f}" for one in rounds)
    rate = median["tokens"] / median["bare"]
    print(f"  {rate:.0f} tokens/s bare; update / bare generation = {median['ratio']:.3f} (rounds: {ratios})")
