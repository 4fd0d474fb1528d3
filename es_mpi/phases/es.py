"""Evolution strategies: score the population on one batch, merge one number a member, rebuild the update from seeds.

    theta' = theta + (alpha / N) sum_i z_i eps_i,   R_i = mean reward of theta + sigma * eps_i on the batch
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.comm.agree import agree_fields, already_yes, any_rank, merge_scores, sum_tallies
from es_mpi.config.schema import EsPhase
from es_mpi.errors import Divergence, EngineError
from es_mpi.estimator import Estimate, TooFewMembers, effective_count, estimate, rank_of
from es_mpi.grading.service import Pending
from es_mpi.phases.context import Progress, RunContext, StepReport, Stopped, Tally, common_metrics
from es_mpi.population import members, random_reward, share
from es_mpi.tasks.batches import Batch
from es_mpi.types import Grade, Item, Member, MemberScore, Status, Verdict

CENTER = Member(index=-1, seed=0)  # evaluated at a sigma of 0: theta itself


def es_step(run: RunContext, name: str, phase: EsPhase, step: int) -> StepReport:
    """Update number `step` (from 0 over all phases) of phase `name`. Every rank returns the same record.

    Raises Stopped when a rank was told to stop before all members were scored, TooFewMembers below `min_valid`, Divergence when
    the ranks' masters differ afterwards.
    """
    progress, sent = run.ledger.at(step), run.comm.bytes_sent
    tally, scores = progress.tally, progress.scores
    batch = run.batches.at(step)
    population = members(run.run_seed, step, phase.population, phase.estimator)
    missing = [member for member in population if member.index not in scores]  # all, unless ranks were lost
    mine = share(missing, run.comm.rank, run.comm.size)
    _score_share(run, phase, step, mine, batch, progress)
    unfinished = any(member.index not in scores for member in mine)
    with tally.timed("idle"):
        if any_rank(run.comm, f"members of update {step + 1}", unfinished):
            raise Stopped
    with tally.timed("merge"):
        merged = merge_scores(run.comm, len(population), [scores[member.index] for member in mine])
        scores.update((member.index, merged[member.index]) for member in missing)
    table = [scores[member.index] for member in population]
    result = _estimate(run, phase, step, population, table)
    with tally.timed("update"):
        if progress.stats is None:
            progress.stats = run.engine.store.update(result.terms)
            progress.turn = run.turn.cosine(result.terms, run.engine.store.layout.elements, run.engine.store.threads)
        digest = run.engine.store.digest()
    agree_fields(run.comm, f"master weights after update {step + 1}", {"digest": digest}, error=Divergence)
    tally.add("bytes", run.comm.bytes_sent - sent)
    totals = sum_tallies(run.comm, tally.values)
    return StepReport(
        record=_record(name, phase, step, batch, table, result, digest),
        metrics=_metrics(table, result, progress, totals, run.comm.size),
    )


def _estimate(run: RunContext, phase: EsPhase, step: int, population: Sequence[Member], table: Sequence[MemberScore]) -> Estimate:
    """The update of a table that is the same on every rank. TooFewMembers quotes the first fault that any rank's grader had."""
    try:
        return estimate(
            population, table,
            estimator=phase.estimator, shaping=phase.shaping, alpha=phase.alpha, min_valid=phase.min_valid,
        )  # fmt: skip
    except TooFewMembers as error:
        own = run.grading.trouble.encode(errors="replace")
        first = next(filter(None, run.comm.allgather(f"faults of update {step + 1}", own)), b"").decode()
        raise TooFewMembers(f"{error}\n  first     {first}" if first else str(error)) from error


def _score_share(run: RunContext, phase: EsPhase, step: int, mine: Sequence[Member], batch: Batch, progress: Progress) -> None:
    """Score this rank's members, or those before a stop; the last rank, which never has more than another, also the centre."""
    tally, scores, last = progress.tally, progress.scores, run.comm.rank == run.comm.size - 1
    wanted = [(member, phase.sigma) for member in mine if phase.generate]
    if phase.center and last and CENTER.index not in scores:
        wanted.append((CENTER, 0.0))
    graded = []
    for member, sigma in wanted:
        if run.stopping() or already_yes(run.comm):
            break
        graded.append((member, respond(run, member, sigma, batch, tally)))
    with tally.timed("grade"):  # what generating did not hide
        for member, pending in graded:
            scores[member.index] = score(member, pending(), run.grading.config.max_errors, tally)
    tally.values.pop("center", None)
    if last and CENTER.index in scores:  # one rank says it for all
        tally.add("center", scores[CENTER.index].reward)
    if phase.reward == "random":
        for member in mine:
            scores[member.index] = MemberScore(member.index, random_reward(run.run_seed, step, member.index))


def respond(run: RunContext, member: Member, sigma: float, batch: Batch, tally: Tally) -> Pending:
    """The responses of one member to the batch, handed to the graders, which work while the next member generates."""
    with tally.timed("load"):
        version = run.engine.load(member, sigma)
    with tally.timed("generate"):
        completions = run.engine.generate(batch.prompts, run.sampling, batch.seeds)
    if any(c.version != version for c in completions):
        raise EngineError(f"member {member.index}: responses of version {completions[0].version}, weights are {version}")
    tally.add("responses", len(completions))
    tally.add("tokens", sum(len(c.token_ids) for c in completions))
    tally.add("truncated", sum(c.truncated for c in completions))
    return run.grading.submit(
        [Item(c.text, problem.answer, c.truncated) for problem, c in zip(batch.problems, completions, strict=True)]
    )


def score(member: Member, grades: Sequence[Grade], max_errors: float, tally: Tally) -> MemberScore:
    """The mean reward over the responses that could be graded; FAILED where the grader failed on too many, never a run's end."""
    for grade in grades:
        tally.add(f"grade/{grade.verdict}")
    rewards = [grade.reward for grade in grades if grade.verdict is not Verdict.ERROR]
    if not rewards or len(grades) - len(rewards) > max_errors * len(grades):
        return MemberScore(member.index, math.nan, Status.FAILED)
    return MemberScore(member.index, sum(rewards) / len(rewards))


def _record(
    name: str, phase: EsPhase, step: int, batch: Batch, scores: list[MemberScore], result: Estimate, digest: str
) -> Mapping[str, Any]:
    return {
        "step": step + 1,
        "phase": name,
        "epoch": batch.epoch,
        "batch": batch.id,
        "sigma": phase.sigma,
        "alpha": phase.alpha,
        "members": [[s.member, s.reward if s.status == Status.OK else None, s.status.name.lower()] for s in scores],
        "terms": [[f"{t.seed:016x}", t.coefficient] for t in result.terms],
        "digest": digest,
    }


def _metrics(
    scores: list[MemberScore], result: Estimate, progress: Progress, totals: Mapping[str, float], ranks: int
) -> Mapping[str, float]:
    """The tags of one step."""
    kept, stats = [scores[i].reward for i in result.valid], progress.stats
    assert stats is not None  # the update is applied
    center = {"reward/center": totals["center"], "es/center_rank": rank_of(totals["center"], kept)} if "center" in totals else {}
    return {
        "reward/mean": result.mean, "reward/std": result.std, "reward/min": min(kept), "reward/max": max(kept),
        **center,
        "es/update_norm": stats.norm, "es/step_cosine": stats.cosine, "es/update_cosine": progress.turn,
        "es/distinct_rewards": effective_count(kept),
        "es/valid_members": len(kept), "es/zero_std": float(result.degenerate),
        **common_metrics(totals, ranks),
    }
