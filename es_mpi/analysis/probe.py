"""Before training: what a sigma does to the rewards of members, on the engine and the first batch that training will use.

Too small a sigma leaves most responses as they are, and what differs is noise; too large a one breaks the model. Between the two
members differ in reward by what they are (es_mpi.analysis.signal). The same directions are tried at every sigma.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from es_mpi.analysis.signal import signal
from es_mpi.noise.address import subkey
from es_mpi.phases.context import RunContext
from es_mpi.population import members
from es_mpi.tasks.batches import Batch, sampling_seed
from es_mpi.types import Completion, Item, Member, Verdict

Facts = dict[str, Any]
Tokens = list[list[int]]

REPEAT, RESAMPLE = "repeat", "resample"  # the centre with equal decoding seeds, and with others
VALID = (Verdict.RIGHT, Verdict.WRONG)
MOST_INVALID = 0.1  # more invalid responses than the centre has
LEAST_REWARD, SMALL_COST = 0.5, 0.9  # of the centre's reward


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation: of the centre (`what` REPEAT or RESAMPLE) or of a member at a sigma (`what` its number as text).

    `rewards` holds one number a prompt, NaN where the grader failed; the shares are of the batch's responses: identical to the
    first of the centre, and invalid (no answer found, cut, not graded).
    """

    sigma: float
    what: str
    rewards: list[float]
    identical: float
    invalid: float


def probe(run: RunContext, sigmas: Sequence[float], population: int, repeats: int, tell: Callable[[str], None]) -> Facts | None:
    """Evaluate the centre `repeats` times on every rank and `population` members at each sigma, shared over the ranks.

    What was found, on rank 0; None elsewhere. `tell` gets a line after each evaluation of this rank.
    """
    batch = run.batches.at(0)
    run.engine.load(None)
    first = json.dumps(_tokens(run.engine.generate(batch.prompts, run.sampling, batch.seeds))).encode()
    reference = json.loads(run.comm.broadcast("responses of the centre", first if run.comm.rank == 0 else None))
    trials = []
    for trial in _trials(run, batch, reference, sigmas, population, repeats):
        trials.append(trial)
        name = trial.what if trial.sigma == 0 else f"member {trial.what}"
        tell(f"sigma {trial.sigma:.3g}, {name}: reward {np.nanmean(trial.rewards):.4f}, {trial.identical:.0%} identical")
    rows = [[t.sigma, t.what, t.rewards, t.identical, t.invalid] for t in trials]
    parts = run.comm.gather("trials", json.dumps(rows).encode())
    if parts is None:
        return None
    found = sorted((Trial(*row) for part in parts for row in json.loads(part)), key=lambda t: (t.sigma, t.what))
    center = _center([t for t in found if t.sigma == 0.0])
    levels = [_level(sigma, [t for t in found if t.sigma == sigma]) for sigma in sigmas]
    sizes = {"prompts": len(batch.prompts), "members": population, "ranks": run.comm.size}
    return {**sizes, "center": center, "levels": levels, "recommended": recommend(center, levels)}


def _trials(
    run: RunContext, batch: Batch, reference: Tokens, sigmas: Sequence[float], population: int, repeats: int
) -> Iterator[Trial]:
    """This rank's evaluations. Each grades while nothing else is done: a probe is not timed."""
    for number in range(repeats):
        yield _trial(run, batch, reference, 0.0, None, REPEAT, batch.seeds)
        if run.sampling.temperature > 0:
            place = run.comm.rank * repeats + number
            seeds = [sampling_seed(run.run_seed, "probe", place, i) for i in range(len(batch.prompts))]
            yield _trial(run, batch, reference, 0.0, None, RESAMPLE, seeds)
    directions = members(subkey(run.run_seed, "probe"), 0, population, "one_point")
    mine = [(sigma, member) for sigma in sigmas for member in directions][run.comm.rank :: run.comm.size]
    for sigma, member in mine:
        yield _trial(run, batch, reference, sigma, member, str(member.index), batch.seeds)


def _trial(
    run: RunContext, batch: Batch, reference: Tokens, sigma: float, member: Member | None, what: str, seeds: Sequence[int]
) -> Trial:
    run.engine.load(member, sigma)
    responses = run.engine.generate(batch.prompts, run.sampling, seeds)
    items = [Item(r.text, problem.answer, r.truncated) for problem, r in zip(batch.problems, responses, strict=True)]
    grades = run.grading.submit(items)()
    same = sum(a == b for a, b in zip(_tokens(responses), reference, strict=True))
    invalid = sum(grade.verdict not in VALID for grade in grades)
    rewards = [math.nan if grade.verdict is Verdict.ERROR else grade.reward for grade in grades]
    return Trial(sigma, what, rewards, same / len(grades), invalid / len(grades))


def _tokens(responses: Sequence[Completion]) -> Tokens:
    return [list(response.token_ids) for response in responses]


def _center(trials: Sequence[Trial]) -> Facts:
    """Spread of the centre's reward over repeats: with equal seeds the engine's own noise, with others that of sampling."""
    repeats = [t for t in trials if t.what == REPEAT]
    resampled = [float(np.nanmean(t.rewards)) for t in trials if t.what == RESAMPLE]
    means = [float(np.nanmean(t.rewards)) for t in repeats]
    return {
        "evaluations": len(trials),
        "mean": float(np.mean(means)),
        "invalid": float(np.mean([t.invalid for t in repeats])),
        "identical": float(np.mean([t.identical for t in repeats])),
        "repeat_std": float(np.std(means)),
        "resample_std": float(np.std(resampled)) if resampled else None,
    }


def _level(sigma: float, trials: Sequence[Trial]) -> Facts:
    rewards = np.array([t.rewards for t in trials])
    found = signal(rewards)
    return {
        "sigma": sigma,
        "mean": float(np.nanmean(rewards)),
        "spread": found.spread,
        "noise": found.noise if math.isfinite(found.noise) else None,
        "signal_to_noise": found.to_noise if math.isfinite(found.to_noise) else None,
        "fidelity": found.fidelity,
        "significant": found.significant,
        "identical": float(np.mean([t.identical for t in trials])),
        "invalid": float(np.mean([t.invalid for t in trials])),
    }


def recommend(center: Facts, levels: Sequence[Facts]) -> Facts:
    """A sigma of `levels` (in their order), or None, and why.

    Where members differ beyond doubt, the one at which a member's reward says most about the member; else the largest that
    costs little, since the members' differences grow with sigma faster than flipped answers do.
    """
    working = [x for x in levels if x["invalid"] <= center["invalid"] + MOST_INVALID]
    working = [x for x in working if x["mean"] >= LEAST_REWARD * center["mean"]]
    if not working:
        return {"sigma": None, "reason": "every sigma breaks the model: try smaller ones (--sigmas)"}
    if all(x["identical"] == 1.0 for x in working):
        return {
            "sigma": None,
            "reason": "no response changes at any sigma that leaves the model working: try larger ones (--sigmas)",
        }
    seen = [x for x in working if x["significant"]]
    cheap = [x for x in working if x["mean"] >= SMALL_COST * center["mean"] and x["identical"] < 1.0]
    if seen:
        best = max(seen, key=lambda x: x["fidelity"])
        reason = (
            f"members differ most clearly here: their rewards have a correlation of {best['fidelity']:.2f} with their true ones"
        )
    elif cheap:
        best = cheap[-1]
        reason = (
            f"the largest that keeps {SMALL_COST:.0%} of the centre's reward; at no sigma do members differ beyond the noise of "
            "the prompts, which more --members or a larger task.batch_size would settle"
        )
    else:
        return {
            "sigma": None,
            "reason": "members differ no more than prompts make equal ones: raise task.batch_size or --members",
        }
    if len(levels) > 1 and best is levels[-1]:
        reason += "; it is the largest of the grid: the best may lie beyond (--sigmas)"
    return {"sigma": best["sigma"], "reason": reason}
