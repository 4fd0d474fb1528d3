"""The main loop of a run, on every rank."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from es_mpi.checkpoint.folder import checkpoint_path, has_checkpoint, prune, write_checkpoint
from es_mpi.checkpoint.run_folder import write_json
from es_mpi.checkpoint.weights import nothing, writer
from es_mpi.comm.agree import any_rank
from es_mpi.comm.faults import RanksLost, agreed
from es_mpi.comm.port import Comm
from es_mpi.config.schema import EdGrpoPhase, EsPhase, GrpoPhase, PreferencePhase
from es_mpi.engine.port import Engine
from es_mpi.errors import EXIT_OK, TryAgain
from es_mpi.estimator import TooFewMembers
from es_mpi.evaluation.evaluator import evaluate
from es_mpi.phases.context import Ledger, OpenPhase, RunContext, Stateless, StepReport, Stopped
from es_mpi.phases.es import es_step
from es_mpi.runner.prepare import Prepared, eval_tokens
from es_mpi.runner.scribe import Scribe
from es_mpi.runner.summary import before_after, evaluated, summary

PATIENCE_S = 20  # with a member or an evaluation that is under way when a signal asks for the end


def _open_es(run: RunContext, name: str, phase: EsPhase, resume_from: Path | None) -> OpenPhase:
    return Stateless(partial(es_step, run, name, phase))


def _open_grpo(run: RunContext, name: str, phase: GrpoPhase, resume_from: Path | None) -> OpenPhase:
    from es_mpi.phases.grpo import Grpo  # torch, for runs that need it

    return Grpo(run, name, phase, resume_from)


def _open_ed_grpo(run: RunContext, name: str, phase: EdGrpoPhase, resume_from: Path | None) -> OpenPhase:
    from es_mpi.phases.grpo import EdGrpo

    return EdGrpo(run, name, phase, resume_from)


def _open_idpo(run: RunContext, name: str, phase: PreferencePhase, resume_from: Path | None) -> OpenPhase:
    from es_mpi.phases.idpo import Idpo

    return Idpo(run, name, phase, resume_from)


OPEN: Mapping[str, Callable[[RunContext, str, Any, Path | None], OpenPhase]] = {
    "es": _open_es, "grpo": _open_grpo, "ed_grpo": _open_ed_grpo, "idpo": _open_idpo, "ed_idpo": _open_idpo,
}  # fmt: skip


@dataclass
class Session:
    """One attempt at a run. `done` counts the steps that exist, `digest` is that of the weights after them."""

    comm: Comm
    prepared: Prepared
    engine: Engine
    scribe: Scribe
    done: int = 0
    digest: str = ""
    _began: float = field(default_factory=time.monotonic)
    _stop: bool = False
    _phase: OpenPhase | None = None
    _phase_name: str = ""

    def run(self) -> int:
        """All steps that are left, with evaluations and checkpoints where they are due. Returns the exit code.

        Raises an agreed TryAgain when a signal asked for an early end: the last step is saved then.
        """
        self._listen()
        context, whole = self._context(), True
        while True:
            try:
                if not whole:
                    self._close_ranks(context.ledger)
                whole = True
                self._work(context)
                return EXIT_OK
            except RanksLost:
                if not self._from_journal():
                    raise
                whole = False

    def _work(self, context: RunContext) -> None:
        schedule = self.prepared.schedule()
        ahead = context.ledger.at(self.done).stats is not None
        if not any_rank(self.comm, "updates ahead", ahead):  # a rank that has the next update was here when this was done
            self._do_what_is_due()
        for step in range(self.done, len(schedule)):
            try:
                report = self._step(context, schedule[step], step)
            except Stopped:
                self._leave()
            self.scribe.add(report, step + 1, schedule[step])
            self.done, self.digest = step + 1, report.record["digest"]
            self._do_what_is_due()
            if any_rank(self.comm, "stop requests", self._stop) and self.done < len(schedule):
                self._leave()
        self._finish()

    def _leave(self) -> NoReturn:
        signal.alarm(0)  # a save that has begun may end
        if self.done:
            self._save_once()
        raise agreed(TryAgain, self._farewell(), silent=self.comm.rank != 0)

    def _from_journal(self) -> bool:
        """Whether nothing is held but what the journal can give again: not so in a gradient phase, with its optimiser."""
        return self._phase is None or isinstance(self._phase, Stateless)

    def _close_ranks(self, ledger: Ledger) -> None:
        """Go on without ranks that died, from the first step that is not finished on every rank and recorded."""
        lost = self.comm.shrink()
        if self.comm.rank == 0:
            self.scribe.take_over()
        reached = min(self.done, self.scribe.recorded) if self.comm.rank == 0 else self.done
        self.done = min(int(done) for done in self.comm.allgather("finished steps", str(reached).encode()))
        ledger.pool(self.comm, self.done)
        if self.comm.rank == 0:
            self.scribe.open_monitor(self.done, resumed=True)
        self.scribe.monitor.warn(f"{lost} died; the run goes on with {self.comm.size} rank(s) at update {self.done + 1}")

    def _do_what_is_due(self) -> None:
        """Evaluate and save where it is time and has not been done: an earlier attempt may have come so far."""
        if self._evaluation_due() and self._lacks("evaluation", lambda: not evaluated(self.prepared.folder, self.done)):
            self._evaluate()
        if self._checkpoint_due():
            self._save_once()

    def _save_once(self) -> None:
        if self._lacks("checkpoint", lambda: not has_checkpoint(self.prepared.folder.path, self.done)):
            self._save()

    def _lacks(self, what: str, missing: Callable[[], bool]) -> bool:
        """Rank 0 looks, for all: other nodes may see a file later."""
        return any_rank(self.comm, f"missing {what} of step {self.done}", self.comm.rank == 0 and missing())

    def _evaluation_due(self) -> bool:
        config = self.prepared.config.eval
        if self.done == 0:
            return config.before
        if self.done == self.prepared.total:
            return config.after
        return bool(config.every) and self.done % config.every == 0

    def _checkpoint_due(self) -> bool:
        every = self.prepared.config.checkpoint.every
        return self.done > 0 and (self.done == self.prepared.total or (bool(every) and self.done % every == 0))

    def _context(self) -> RunContext:
        p = self.prepared
        return RunContext(
            p.config.run.seed, self.comm, self.engine, p.batches, p.grading, p.sampling, stopping=lambda: self._stop
        )

    def _step(self, context: RunContext, name: str, step: int) -> StepReport:
        if name != self._phase_name:
            self._switch(context, name, step)
        assert self._phase is not None
        try:
            return self._phase.step(step)
        except TooFewMembers as error:  # the same table on every rank, so every rank is here
            raise agreed(TooFewMembers, str(error), silent=self.comm.rank != 0) from error

    def _switch(self, context: RunContext, name: str, step: int) -> None:
        """Close the phase that is over and open `name`, from a checkpoint where the run was interrupted within it."""
        self._close_phase()
        schedule, phase = self.prepared.schedule(), self.prepared.config.phases[name]
        within = step > schedule.index(name)
        self._phase = OPEN[phase.kind](context, name, phase, checkpoint_path(self.prepared.folder.path, step) if within else None)
        self._phase_name = name

    def _close_phase(self) -> None:
        if self._phase:
            self._phase.close()
            self._phase = None

    def _evaluate(self) -> None:
        began = time.perf_counter()
        config = self.prepared.config
        values: dict[str, float] = {}
        for evalset in self.prepared.evalsets:
            result = evaluate(self.comm, self.engine, evalset, config.eval, eval_tokens(config), config.run.seed)
            if result is not None:
                self.prepared.folder.write_samples(result.task, self.done, result.rows)
                values |= result.tags()
        values["time/eval"] = time.perf_counter() - began
        self.scribe.monitor.log(self.done, values)

    def _save(self) -> None:
        """Rank 0 writes; the others wait at the next exchange."""
        if self.comm.rank == 0:
            began = time.perf_counter()
            folder, phase = self.prepared.folder.path, self.prepared.schedule()[self.done - 1]
            kept = self._phase.save if self._phase else nothing
            write_checkpoint(folder, self.done, writer(self.engine.store, kept), {"phase": phase, "digest": self.digest})
            prune(folder, self.prepared.config.checkpoint.keep)
            self.scribe.monitor.log(self.done, {"time/save": time.perf_counter() - began})
        self.comm.barrier(f"checkpoint of step {self.done}")  # the others wait: what they wait for is on disk then

    def _finish(self) -> None:
        signal.alarm(0)  # a stop that was asked for comes too late
        self._close_phase()
        if self.comm.rank == 0:
            seconds = time.monotonic() - self._began
            write_json(self.prepared.folder.summary, summary(self.prepared, self.done, self.digest, seconds, self.comm.size))
            self.scribe.monitor.before_after(before_after(self.prepared.folder, self.done))
        self.comm.barrier("summary")

    def _farewell(self) -> str:
        path = self.prepared.folder.path
        return f"stopped by a signal after step {self.done}; nothing before it is lost\n  continue  es-mpi resume {path}"

    def _listen(self) -> None:
        """SIGTERM and SIGUSR1 (what schedulers send before they kill) end the run after the member under way, or without it."""

        def request(number: int, frame: FrameType | None) -> None:
            if not self._stop and self._from_journal():
                signal.alarm(PATIENCE_S)
            self._stop = True

        def give_up(number: int, frame: FrameType | None) -> None:
            # As Ctrl-C would: no reward and no library takes that for an error of its own.
            raise KeyboardInterrupt(f"stopped by a signal; what was under way did not end in {PATIENCE_S} s\n{self._farewell()}")

        signal.signal(signal.SIGALRM, give_up)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, request)
