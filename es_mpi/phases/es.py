"""Evolution strategies: score the population on one batch, merge one number a member, rebuild the update from seeds.

    theta' = theta + (alpha / N) sum_i z_i eps_i,   R_i = mean reward of theta + sigma * eps_i on the batch
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from es_mpi.comm.agree import agree_fields, already_yes, any_rank, merge_scores, sum_tallies
from es_mpi.config.schema import EsPhase
from es_mpi.errors import Divergence, EngineError
from es_mpi.estimator import Estimate, estimate
from es_mpi.phases.context import RunContext, StepReport, Stopped, Tally
from es_mpi.population import members, share
from es_mpi.tasks.batches import Batch
from es_mpi.types import Completion, Member, MemberScore, Problem, Status, UpdateStats, Verdict


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
    for member in mine:
        if run.stopping() or already_yes(run.comm):
            break
        scores[member.index] = evaluate(run, member, phase.sigma, batch, tally)
    unfinished = any(member.index not in scores for member in mine)
    with tally.timed("idle"):
        if any_rank(run.comm, f"members of update {step + 1}", unfinished):
            raise Stopped
    with tally.timed("merge"):
        merged = merge_scores(run.comm, len(population), [scores[member.index] for member in mine])
        scores.update((member.index, merged[member.index]) for member in missing)
    table = [scores[member.index] for member in population]
    result = estimate(
        population, table,
        estimator=phase.estimator, shaping=phase.shaping, alpha=phase.alpha, min_valid=phase.min_valid,
    )
    with tally.timed("update"):
        if progress.stats is None:
            progress.stats = run.engine.store.update(result.terms)
        digest = run.engine.store.digest()
    agree_fields(run.comm, f"master weights after update {step + 1}", {"digest": digest}, error=Divergence)
    tally.add("bytes", run.comm.bytes_sent - sent)
    totals = sum_tallies(run.comm, tally.values)
    return StepReport(
        record=_record(name, phase, step, batch, table, result, digest),
        metrics=_metrics(table, result, progress.stats, totals, run.comm.size),
    )


def evaluate(run: RunContext, member: Member, sigma: float, batch: Batch, tally: Tally) -> MemberScore:
    """The mean reward of one member over the batch. An answer that cannot be graded fails the member, never the run."""
    with tally.timed("load"):
        version = run.engine.load(member, sigma)
    with tally.timed("generate"):
        completions = run.engine.generate(batch.prompts, run.sampling, batch.seeds)
    if any(c.version != version for c in completions):
        raise EngineError(f"member {member.index}: responses of version {completions[0].version}, weights are {version}")
    with tally.timed("grade"):
        total = 0.0
        for problem, completion in zip(batch.problems, completions, strict=True):
            total += _reward(run, problem, completion, tally)
    reward = total / len(batch.problems)
    if math.isfinite(reward):
        return MemberScore(member.index, reward)
    return MemberScore(member.index, math.nan, Status.FAILED)


def _reward(run: RunContext, problem: Problem, completion: Completion, tally: Tally) -> float:
    tally.add("responses")
    tally.add("tokens", len(completion.token_ids))
    tally.add("truncated", completion.truncated)
    grade = run.grader(completion.text, problem.answer, completion.truncated)
    tally.add(f"grade/{grade.verdict}")
    return grade.reward


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
    scores: list[MemberScore], result: Estimate, stats: UpdateStats, totals: Mapping[str, float], ranks: int
) -> Mapping[str, float]:
    """The tags of one step. Times are means over ranks, in seconds."""
    kept = [scores[i].reward for i in result.valid]
    times = {name: seconds / ranks for name, seconds in totals.items() if name.startswith("time/")}
    responses, tokens = totals.get("responses", 0.0), totals.get("tokens", 0.0)
    generating, whole = times.get("time/generate", math.nan), sum(times.values())
    share_of = {f"grade/{verdict}": totals.get(f"grade/{verdict}", 0.0) / max(responses, 1.0) for verdict in Verdict}
    return {
        "reward/mean": result.mean, "reward/std": result.std, "reward/min": min(kept), "reward/max": max(kept),
        "es/update_norm": stats.norm, "es/step_cosine": stats.cosine,
        "es/valid_members": len(kept), "es/zero_std": float(result.degenerate),
        "gen/tokens": tokens, "gen/mean_length": tokens / max(responses, 1.0),
        "gen/truncated": totals.get("truncated", 0.0) / max(responses, 1.0),
        **share_of, **times,
        "perf/tokens_per_s": tokens / whole,
        "perf/overhead": whole / generating,
        "perf/bytes_per_step": totals["bytes"] / ranks,
    }
