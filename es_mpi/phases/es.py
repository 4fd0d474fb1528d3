"""Evolution strategies: score the population on one batch, merge one number a member, rebuild the update from seeds.

    theta' = theta + (alpha / N) sum_i z_i eps_i,   R_i = mean reward of theta + sigma * eps_i on the batch
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.comm.agree import agree_fields, merge_scores, sum_tallies
from es_mpi.config.schema import EsPhase
from es_mpi.errors import Divergence, EngineError
from es_mpi.estimator import Estimate, effective_count, estimate, rank_of
from es_mpi.grading.process import Item
from es_mpi.grading.service import Pending
from es_mpi.phases.context import RunContext, StepReport, Tally, common_metrics
from es_mpi.population import members, random_reward, share
from es_mpi.tasks.batches import Batch
from es_mpi.types import Grade, Member, MemberScore, Status, UpdateStats, Verdict

CENTER = Member(index=-1, seed=0)  # evaluated at a sigma of 0: theta itself


def es_step(run: RunContext, name: str, phase: EsPhase, step: int) -> StepReport:
    """Update number `step` (from 0 over all phases) of phase `name`. Every rank returns the same record.

    Raises TooFewMembers below `min_valid`, Divergence when the ranks' masters differ afterwards.
    """
    tally, sent = Tally(), run.comm.bytes_sent
    batch = run.batches.at(step)
    population = members(run.run_seed, step, phase.population, phase.estimator)
    mine = _score_share(run, phase, step, share(population, run.comm.rank, run.comm.size), batch, tally)
    with tally.timed("idle"):
        run.comm.barrier(f"members of update {step + 1}")
    with tally.timed("merge"):
        scores = merge_scores(run.comm, len(population), mine)
    result = estimate(
        population, scores,
        estimator=phase.estimator, shaping=phase.shaping, alpha=phase.alpha, min_valid=phase.min_valid,
    )
    with tally.timed("update"):
        stats = run.engine.store.update(result.terms)
        digest = run.engine.store.digest()
        turn = run.turn.cosine(result.terms, run.engine.store.layout.elements, run.engine.store.threads)
    agree_fields(run.comm, f"master weights after update {step + 1}", {"digest": digest}, error=Divergence)
    tally.add("bytes", run.comm.bytes_sent - sent)
    totals = sum_tallies(run.comm, tally.values)
    return StepReport(
        record=_record(name, phase, step, batch, scores, result, digest),
        metrics=_metrics(scores, result, stats, turn, totals, run.comm.size),
    )


def _score_share(
    run: RunContext, phase: EsPhase, step: int, mine: Sequence[Member], batch: Batch, tally: Tally
) -> list[MemberScore]:
    """The scores of this rank's members; the last rank, which never has more than another, also scores the centre."""
    graded = [(member, respond(run, member, phase.sigma, batch, tally)) for member in mine if phase.generate]
    if phase.center and run.comm.rank == run.comm.size - 1:
        graded.append((CENTER, respond(run, CENTER, 0.0, batch, tally)))
    with tally.timed("grade"):  # what generating did not hide
        scores = [score(member, pending(), run.grading.config.max_errors, tally) for member, pending in graded]
    if scores and scores[-1].member == CENTER.index:
        tally.add("center", scores.pop().reward)
    if phase.reward == "random":
        return [MemberScore(member.index, random_reward(run.run_seed, step, member.index)) for member in mine]
    return scores


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
    scores: list[MemberScore], result: Estimate, stats: UpdateStats, turn: float, totals: Mapping[str, float], ranks: int
) -> Mapping[str, float]:
    """The tags of one step."""
    kept = [scores[i].reward for i in result.valid]
    center = {"reward/center": totals["center"], "es/center_rank": rank_of(totals["center"], kept)} if "center" in totals else {}
    return {
        "reward/mean": result.mean, "reward/std": result.std, "reward/min": min(kept), "reward/max": max(kept),
        **center,
        "es/update_norm": stats.norm, "es/step_cosine": stats.cosine, "es/update_cosine": turn,
        "es/distinct_rewards": effective_count(kept),
        "es/valid_members": len(kept), "es/zero_std": float(result.degenerate),
        **common_metrics(totals, ranks),
    }
