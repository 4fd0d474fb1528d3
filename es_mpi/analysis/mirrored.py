"""Does subtracting the centre's value, or the mirrored member's, make the estimate of an update less noisy?

For rewards of regenerated responses it hardly does, for losses of a fixed text greatly (arXiv 2608.27351, table 13). A draw is a
direction and the batch that training would use at that update.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from es_mpi.analysis.estimates import pairing
from es_mpi.noise.address import subkey
from es_mpi.phases.context import RunContext
from es_mpi.population import members
from es_mpi.tasks.batches import Batch, sampling_seed
from es_mpi.types import Completion, Item, Member, Verdict

REWARD, RESAMPLED, TOKEN, SEQUENCE = (
    "reward, equal decoding seeds", "reward, independent seeds", "mean token log-probability, fixed text",
    "sequence log-probability, fixed text",
)  # fmt: skip
SIGNS = (0, 1, -1)  # the centre first: its responses are the fixed text


def mirrored(run: RunContext, sigma: float, draws: int) -> list[dict[str, Any]] | None:
    """For each target its correlations and variance ratios over `draws`, shared over the ranks; on rank 0, None elsewhere."""
    directions = members(subkey(run.run_seed, "mirrored"), 0, draws, "one_point")
    mine = [(member.index, _draw(run, sigma, member)) for member in directions[run.comm.rank :: run.comm.size]]
    parts = run.comm.gather("mirrored members", json.dumps(mine).encode())
    if parts is None:
        return None
    found = [values for _, values in sorted(row for part in parts for row in json.loads(part))]
    rows = []
    for target in found[0]:
        zero, plus, minus = np.array([values[target] for values in found]).T
        facts = {name: value if math.isfinite(value) else None for name, value in asdict(pairing(plus, zero, minus)).items()}
        rows.append({"target": target, **facts})
    return rows


def _draw(run: RunContext, sigma: float, member: Member) -> dict[str, list[float]]:
    """Each target's values at the centre, theta + sigma eps and theta - sigma eps."""
    batch, found, text = run.batches.at(member.index), dict[str, list[float]](), list[list[int]]()
    for sign in SIGNS:
        run.engine.load(replace(member, sign=sign) if sign else None, sigma if sign else 0.0)
        said = run.engine.generate(batch.prompts, run.sampling, batch.seeds)
        text = text or [list(one.token_ids) for one in said]
        values = {REWARD: _reward(run, batch, said)}
        if run.sampling.temperature > 0:
            seeds = [sampling_seed(run.run_seed, "mirrored", member.index, sign + 1, i) for i in range(len(batch.prompts))]
            values[RESAMPLED] = _reward(run, batch, run.engine.generate(batch.prompts, run.sampling, seeds))
        logs = run.engine.logprobs(batch.prompts, text)
        values[TOKEN] = float(np.mean([x for one in logs for x in one]))
        values[SEQUENCE] = float(np.mean([math.fsum(one) for one in logs]))
        for target, value in values.items():
            found.setdefault(target, []).append(value)
    return found


def _reward(run: RunContext, batch: Batch, said: Sequence[Completion]) -> float:
    grades = run.grading.submit([Item(c.text, p.answer, c.truncated) for p, c in zip(batch.problems, said, strict=True)])()
    return float(np.mean([grade.reward for grade in grades if grade.verdict is not Verdict.ERROR]))
