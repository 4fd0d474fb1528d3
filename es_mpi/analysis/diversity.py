"""How different are the members' policies? Measured on the engine over a grid of sigmas, beside what theory predicts.

Policies are compared at temperature 1, at which the engine gives log-probabilities of given responses. All sigmas perturb along
the same directions. Theory and estimators: es_mpi.analysis.theory, es_mpi.analysis.estimates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_mpi.analysis.estimates import fisher_trace, policy_js, rescaled, success_js_estimates
from es_mpi.analysis.theory import log_log_slope, population_success, predicted_js, success_gain, success_gain_from_js
from es_mpi.noise.address import subkey
from es_mpi.phases.context import RunContext
from es_mpi.population import members
from es_mpi.tasks.batches import sampling_seed
from es_mpi.types import Item, Member, Problem, Prompt, Verdict

Facts = dict[str, Any]
Array = NDArray[np.float64]
Responses = list[list[int]]  # token ids, in the order of `Ensemble.prompts`

TRACE_SAMPLES = 4  # times the samples of JS: squared slopes have heavy tails
HOLDS = (0.8, 1.25)  # measured over predicted: where Lemma 1 is said to hold


@dataclass(frozen=True)
class Ensemble:
    """`size` members that answer each of `problems` `samples` times, shared over the ranks; `prompts` and `answers` repeat the
    problems, all samples of the first one first."""

    run: RunContext
    size: int
    samples: int
    problems: Sequence[Problem]
    prompts: Sequence[Prompt] = field(init=False)

    def __post_init__(self) -> None:
        by_id = {prompt.id: prompt for prompt in self.run.batches.prompts}
        object.__setattr__(self, "prompts", [by_id[one.id] for one in self.problems for _ in range(self.samples)])

    @property
    def mine(self) -> list[Member]:
        directions = members(subkey(self.run.run_seed, "diversity"), 0, self.size, "one_point")
        return directions[self.run.comm.rank :: self.run.comm.size]

    def answer(self, author: int) -> tuple[Responses, list[int]]:
        """What the loaded weights say, drawn at temperature 1 with the `author`'s decoding seeds; right answers by problem."""
        run, count = self.run, len(self.prompts)
        seeds = [sampling_seed(run.run_seed, "diversity", author, i) for i in range(count)]
        said = run.engine.generate(self.prompts, replace(run.sampling, temperature=1.0, top_p=1.0), seeds)
        asked = [problem for problem in self.problems for _ in range(self.samples)]
        grades = run.grading.submit([Item(c.text, p.answer, c.truncated) for p, c in zip(asked, said, strict=True)])()
        right = np.array([grade.verdict is Verdict.RIGHT for grade in grades]).reshape(len(self.problems), self.samples)
        return [list(c.token_ids) for c in said], right.sum(axis=1).tolist()

    def score(self, responses: Responses) -> Array:
        """Log-probability of each response under the loaded weights, [problem, sample]."""
        logs = self.run.engine.logprobs(self.prompts, responses)
        return np.array([math.fsum(one) for one in logs]).reshape(len(self.problems), self.samples)


def diversity(
    ensemble: Ensemble, sigmas: Sequence[float], fisher_sigma: float, population: int, tell: Callable[[str], None]
) -> Facts | None:
    """What was found, on rank 0; None elsewhere. `population` is the N that Jensen-Shannon is also given for."""
    centre = replace(ensemble, samples=TRACE_SAMPLES * ensemble.samples)
    traces = [_trace(centre, sigma) for sigma in (fisher_sigma, fisher_sigma / 2)]
    levels = []
    for sigma in sigmas:
        logprobs, right = _measure(ensemble, sigma)
        if logprobs is not None and traces[0] is not None:
            levels.append(_level(ensemble, sigma, logprobs, right, traces[0]["value"], population))
            tell(f"sigma {sigma:.3g}: JS {levels[-1]['js']:.4g} nats, predicted {levels[-1]['predicted']:.4g}")
    if not levels:
        return None
    held = _held(levels)
    return {
        "prompts": len(ensemble.problems), "members": ensemble.size, "samples": ensemble.samples,
        "ranks": ensemble.run.comm.size, "population": population, "ceiling": math.log(ensemble.size), "traces": traces,
        "levels": levels, "holds_to": held[-1]["sigma"] if held else None,
        "slope": _finite(log_log_slope([x["sigma"] for x in held], [x["js"] for x in held])),
        "slope_of_all": _finite(log_log_slope([x["sigma"] for x in levels], [x["js"] for x in levels])),
    }  # fmt: skip


def _trace(ensemble: Ensemble, sigma: float) -> Facts | None:
    """tr I by central differences along the members' directions, on rank 0."""
    engine, found = ensemble.run.engine, []
    engine.load(None)
    responses, _ = ensemble.answer(0)
    for member in ensemble.mine:
        sides = []
        for sign in (1, -1):
            engine.load(replace(member, sign=sign), sigma)
            sides.append(ensemble.score(responses).tolist())
        found.append([member.index, *sides])
    rows = _gathered(ensemble, f"Fisher information at sigma {sigma}", found)
    if rows is None:
        return None
    plus, minus = (np.array([row[place] for row in rows]) for place in (1, 2))
    return {"sigma": sigma, **asdict(fisher_trace(plus, minus, sigma))}


def _measure(ensemble: Ensemble, sigma: float) -> tuple[Array | None, NDArray[np.int64]]:
    """Log-probabilities [author, scorer, problem, sample] and right answers [author, problem], on rank 0."""
    engine, said = ensemble.run.engine, []
    for member in ensemble.mine:
        engine.load(member, sigma)
        said.append([member.index, *ensemble.answer(member.index + 1)])
    parts = ensemble.run.comm.allgather(f"responses at sigma {sigma}", json.dumps(said).encode())
    everyone = sorted(row for part in parts for row in json.loads(part))
    found = []
    for member in ensemble.mine:
        engine.load(member, sigma)
        found.append([member.index, [ensemble.score(responses).tolist() for _, responses, _ in everyone]])
    rows = _gathered(ensemble, f"log-probabilities at sigma {sigma}", found)
    right = np.array([one for _, _, one in everyone])
    return (None if rows is None else np.array([row[1] for row in rows]).swapaxes(0, 1)), right


def _gathered(ensemble: Ensemble, what: str, mine: list[Any]) -> list[Any] | None:
    """What the ranks found of their members, in the members' order, on rank 0."""
    parts = ensemble.run.comm.gather(what, json.dumps(mine).encode())
    return None if parts is None else sorted(row for part in parts for row in json.loads(part))


def _level(
    ensemble: Ensemble, sigma: float, logprobs: Array, right: NDArray[np.int64], trace: float, population: int
) -> Facts:
    """One sigma: diversity of policies and of success, means over the problems."""
    js = float(policy_js(logprobs).mean())
    predicted = predicted_js(sigma, ensemble.size, trace)
    plain, corrected = success_js_estimates(right, ensemble.samples)
    chances = [column / ensemble.samples for column in right.T]
    return {
        "sigma": sigma, "js": js, "predicted": predicted, "ratio": js / predicted if predicted else None,
        "js_population": rescaled(js, ensemble.size, population),
        "success": float(right.mean() / ensemble.samples),
        "js_success_plain": float(plain.mean()), "js_success": float(corrected.mean()),
        "population_success": float(np.mean([population_success(p) for p in chances])),
        "success_gain": float(np.mean([success_gain(p) for p in chances])),
        "success_gain_from_js": float(np.mean([success_gain_from_js(p) for p in chances])),
    }  # fmt: skip


def _held(levels: Sequence[Facts]) -> list[Facts]:
    """The levels, in order, up to the first at which measurement and prediction part."""
    for place, level in enumerate(levels):
        if level["ratio"] is None or not HOLDS[0] <= level["ratio"] <= HOLDS[1]:
            return list(levels[:place])
    return list(levels)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
