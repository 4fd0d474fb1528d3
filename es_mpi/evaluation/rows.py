"""From the rows of an evaluation, one a response, to metrics: one value a problem first, then a mean with its interval.

A row has `problem`, `sample` (GREEDY or 0, 1, ...), `question`, `answer`, `response`, `extracted`, `verdict`, `reward`,
`truncated`, `token_ids`, and for sampled responses `logprob`, the natural logarithm of the response's probability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from es_mpi.errors import UsageError
from es_mpi.evaluation.metrics import Vector, distinct_n, sample_metrics
from es_mpi.evaluation.statistics import Interval, interval
from es_mpi.types import Verdict

GREEDY = -1  # sample number of the greedy response
FIXED_LENGTH = 512  # tokens of a response that distinct4_512 looks at: diversity falls with length
INTERVAL_SEED = 0

Row = Mapping[str, Any]


def by_problem(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each problem by its id, in the order of the samples, the greedy one first.

    Raises UsageError where a problem has other samples than the first one.
    """
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        found.setdefault(row["problem"], {})[row["sample"]] = row
    samples = sorted(next(iter(found.values()), {}))
    for problem, held in found.items():
        if sorted(held) != samples:
            raise UsageError(
                f"problem {problem!r} lacks responses or has too many", value=f"{len(held)} responses",
                expected=f"{len(samples)}, as other problems", remedy="evaluate again: the file is not whole",
            )  # fmt: skip
    return {problem: [held[sample] for sample in samples] for problem, held in found.items()}


def problem_values(problems: Mapping[str, Sequence[Row]], ks: Sequence[int]) -> dict[str, Vector]:
    """Each metric's value for every problem, float64 [problems], NaN where it is not available for that problem.

    `greedy`, `pass@k` and `maj@k` are chances or yes and no; of the sampled responses (of the greedy ones where nothing was
    sampled) `length` is the mean in tokens, `truncated` a share, `distinct4` the share of different 4-grams of tokens,
    pooled, `distinct4_512` the same of the first 512 tokens of each, and `entropy` the mean of -ln p over all tokens: an
    unbiased estimate of the mean entropy of the distributions that tokens were drawn from, in nats a token.
    """
    held = [[row for row in rows if row["sample"] != GREEDY] for rows in problems.values()]
    greedy = [row for rows in problems.values() for row in rows if row["sample"] == GREEDY]
    found: dict[str, Vector] = {}
    if greedy:
        found["greedy"] = np.array([_right(row) for row in greedy], dtype=np.float64)
    if held and held[0]:
        right = np.array([[_right(row) for row in rows] for rows in held])
        answers = [[row["extracted"] for row in rows] for rows in held]
        found |= {name: values for name, values in sample_metrics(right, answers, ks).items() if values is not None}
        found["entropy"] = np.array([_entropy(rows) for rows in held])
        found["distinct4"] = np.array([_distinct([row["token_ids"] for row in rows]) for rows in held])
        found["distinct4_512"] = np.array([_distinct([row["token_ids"][:FIXED_LENGTH] for row in rows]) for rows in held])
    else:
        held = [list(rows) for rows in problems.values()]
    found["length"] = np.array([np.mean([len(row["token_ids"]) for row in rows]) for rows in held])
    found["truncated"] = np.array([np.mean([row["truncated"] for row in rows]) for rows in held])
    return found


def intervals(values: Mapping[str, Vector]) -> dict[str, Interval]:
    """The mean of each metric over the problems that have a value, with its 95 % interval; metrics that none has are left out."""
    finite = {name: v[np.isfinite(v)] for name, v in values.items()}
    return {name: interval(v, INTERVAL_SEED) for name, v in finite.items() if v.size}


def verdicts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """How many responses got each verdict, greedy and sampled ones apart."""
    rows = list(rows)
    counts = {
        "greedy": Counter(row["verdict"] for row in rows if row["sample"] == GREEDY),
        "sampled": Counter(row["verdict"] for row in rows if row["sample"] != GREEDY),
    }
    return {kind: {str(v): count[v] for v in Verdict if count[v]} for kind, count in counts.items() if count}


def _right(row: Row) -> bool:
    return bool(row["verdict"] == Verdict.RIGHT)


def _entropy(rows: Sequence[Row]) -> float:
    tokens = sum(len(row["token_ids"]) for row in rows)
    return -sum(row["logprob"] for row in rows) / tokens if tokens else np.nan


def _distinct(samples: Sequence[Sequence[int]]) -> float:
    """NaN where all samples are too short for a 4-gram: they are not alike, there is nothing to compare."""
    return distinct_n(samples, 4) if any(len(sample) >= 4 for sample in samples) else np.nan
