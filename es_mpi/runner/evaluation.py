"""`es-mpi eval`: the responses of a model, or of any step of a run, to held-out problems, shared over the ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import es_mpi
from es_mpi.checkpoint.journal import read_journal
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.comm.agree import agree_fields
from es_mpi.comm.port import Comm
from es_mpi.config.load import Override, load_config, load_resolved
from es_mpi.config.schema import Config
from es_mpi.engine.device import choose_device
from es_mpi.engine.open import open_engine
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.evaluation.evaluator import EvalResult, EvalSet, evaluate
from es_mpi.evaluation.folder import write_evaluation
from es_mpi.evaluation.metrics import guess_pass_at_k
from es_mpi.evaluation.rows import verdicts
from es_mpi.grading.service import Grading
from es_mpi.params.layout import Layout, read_layout
from es_mpi.params.source import resolve
from es_mpi.params.store import MasterStore
from es_mpi.runner.prepare import eval_tokens, evaluation_facts, evaluation_sets, threads, tokenizer_of
from es_mpi.runner.restore import Record, restore, upto
from es_mpi.runner.start import guarded_run, note_to, stage
from es_mpi.tasks.configured import training_task

Show = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Evaluated:
    """What is to be evaluated: a model folder or hub id, or a run with the records of its first steps."""

    config: Config
    layout: Layout
    evalsets: tuple[EvalSet, ...]
    gradings: tuple[Grading, ...]
    run: RunFolder | None = None
    records: Sequence[Record] = ()


def evaluate_model(
    source: str, out: str, *, step: int | None = None, config: str | None = None, overrides: Sequence[Override] = (), show: Show
) -> int:
    """Evaluate `source` on the tasks of `eval.tasks` into the new folder `out`. Returns the exit code.

    `config` is a YAML file whose model is replaced by `source`; a run brings its own. Rank 0 calls `show` with the content of
    results.json. Every error of the input is found before anything is written.
    """

    def work(comm: Comm) -> int:
        asked = stage(comm, lambda: _prepare(source, Path(out), step, config, overrides))
        agree_fields(comm, "the start of the evaluation", evaluation_facts(asked.config, asked.layout, asked.evalsets))
        stage(comm, lambda: _make(Path(out)) if comm.rank == 0 else None)
        comm.deadline_s = asked.config.comm.deadline_s
        began = time.perf_counter()
        digest, results = _evaluate(comm, asked, Path(out) / "logs" / f"rank_{comm.rank}.log")
        if results:
            facts = _facts(asked, source, digest, results, comm.size, time.perf_counter() - began)
            write_evaluation(Path(out), facts, {result.task: result.rows for result in results})
            show(facts)
        comm.barrier("end of the evaluation")
        return EXIT_OK

    return guarded_run(work)


def _prepare(source: str, out: Path, step: int | None, base: str | None, overrides: Sequence[Override]) -> Evaluated:
    """All that can be wrong. Raises UsageError."""
    if out.exists():
        raise UsageError("the output folder exists", value=str(out), key="--out", remedy="name a folder that does not exist")
    run = RunFolder(Path(source))
    is_run = run.config.is_file()
    if step is not None and not is_run:
        raise UsageError("only a run has steps", value=step, key="--step", remedy=f"leave it out: {source} is no run folder")
    if is_run and base is not None:
        raise UsageError("a run has a config of its own", value=base, key="--config", remedy="give key=value instead")
    if is_run:
        config = load_resolved(source, overrides)
    else:
        model: Override = {"model": {"path": source}}
        config = load_config(base, [model, *overrides]) if base else load_config(_bare(overrides), [model, *overrides])
    records = read_journal(run.journal) if is_run and run.journal.exists() else []
    task, gradings = training_task(config.task), dict[str, Grading]()
    layout = read_layout(resolve(config.model.path), config.model.include, config.model.exclude)
    evalsets = evaluation_sets(config, task, tokenizer_of(config, layout), gradings)
    wanted = len(records) if step is None else step
    return Evaluated(config, layout, evalsets, tuple(gradings.values()), run if is_run else None, upto(records, wanted))


def _bare(overrides: Sequence[Override]) -> Mapping[str, Any]:
    """A config of no training: the first task to evaluate on stands for the training task."""
    sections = [one["eval"] for one in overrides if isinstance(one, Mapping) and "eval" in one]
    tasks = next((section["tasks"] for section in sections if section.get("tasks")), None)
    if not tasks:
        raise UsageError("no task to evaluate on", key="--tasks", expected="names of tasks, or --config with a config of its own")
    return {"task": {"name": tasks[0]}, "phases": {"none": {"kind": "es", "updates": 0}}}


def _make(out: Path) -> None:
    try:
        (out / "logs").mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"the output folder cannot be made: {error.strerror}", value=str(out), key="--out") from error


def _evaluate(comm: Comm, asked: Evaluated, log: Path) -> tuple[str, list[EvalResult]]:
    """The digest of the weights, and on rank 0 what was found."""
    config = asked.config
    choose_device(os.environ)
    for grading in asked.gradings:
        grading.start(note_to(log), log)
    store = MasterStore(asked.layout, threads(config))
    if asked.run:
        restore(store, asked.run, asked.records)
    engine = open_engine(config, store, log)
    try:
        found = [evaluate(comm, engine, one, config.eval, eval_tokens(config), config.run.seed) for one in asked.evalsets]
        return store.digest(), [result for result in found if result is not None]
    finally:
        engine.close()
        for grading in asked.gradings:
            grading.close()


def _facts(
    asked: Evaluated, source: str, digest: str, results: Sequence[EvalResult], ranks: int, seconds: float
) -> Mapping[str, Any]:
    """The content of results.json: everything that decides the numbers, then the numbers."""
    config = asked.config
    tasks = {}
    for evalset, result in zip(asked.evalsets, results, strict=True):
        tasks[result.task] = {
            "settings": {
                "task_version": evalset.version, "reward": evalset.grading.name, "samples": config.eval.samples,
                "temperature": config.eval.temperature, "top_p": config.eval.top_p, "max_tokens": eval_tokens(config),
            },
            "problems": len(evalset.problems),
            **summary(result, evalset.choices, config.eval.k),
        }  # fmt: skip
    return {
        "es_mpi": es_mpi.__version__, "source": source, "model": config.model.path, "dtype": config.model.dtype,
        "step": len(asked.records) if asked.run else None, "digest": digest, "seed": config.run.seed,
        "ranks": ranks, "seconds": round(seconds, 3), "tasks": tasks,
    }  # fmt: skip


def summary(result: EvalResult, choices: int | None, ks: Sequence[int]) -> dict[str, Any]:
    """Metrics with their intervals, verdicts, and for multiple choice what guessing would reach."""
    metrics = {name: {"mean": one.mean, "low": one.low, "high": one.high} for name, one in result.metrics.items()}
    guessing = {f"pass@{k}": guess_pass_at_k(choices, k) for k in sorted({1, *ks})} if choices else {}
    return {"metrics": metrics, "verdicts": verdicts(result.rows), **({"guessing": guessing} if guessing else {})}
