"""Evaluations side by side on the same problems: paired differences to the first one, tests, problems gained and lost.

A side is one evaluation, or several of one method with different training seeds. A problem's value on a side is its mean over
the side's seeds. Two questions, two intervals: over problems (would these models differ on other problems?) and, where both
sides have two seeds or more, over seeds (would training again differ?).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from es_mpi.errors import UsageError
from es_mpi.evaluation.metrics import Vector
from es_mpi.evaluation.rows import GREEDY, INTERVAL_SEED, Row, by_problem, intervals, problem_values
from es_mpi.evaluation.significance import difference_over_seeds, holm, over_seeds, permutation_p
from es_mpi.evaluation.statistics import interval, paired_difference
from es_mpi.types import Verdict

Problems = Mapping[str, Sequence[Row]]
Values = Mapping[str, Vector]  # by metric, one a problem
SETTINGS = ("task_version", "reward", "temperature", "top_p", "max_tokens")


@dataclass(frozen=True)
class Side:
    """One column of a comparison: the rows of every training seed, and the settings they were made with."""

    name: str
    seeds: Sequence[Sequence[Row]]
    settings: Sequence[Mapping[str, Any]]


def compare_task(sides: Sequence[Side], ks: Sequence[int] | None) -> dict[str, Any]:
    """One task as a JSON value: `problems`, `notes`, `metrics`, `differences`, `changes`.

    `ks` are the K of Pass@K (default: 1 and powers of two up to the fewest samples, and those). Raises UsageError where the
    sides share no problem, or a problem has different reference answers.
    """
    seeds = [[by_problem(rows) for rows in side.seeds] for side in sides]
    common, notes = _matched(sides, seeds)
    samples = min(_samples(one) for side in seeds for one in side)
    wanted = [k for k in (ks or doubling(samples)) if k <= samples]
    values = [[problem_values({p: one[p] for p in common}, wanted) for one in side] for side in seeds]
    names = [name for name in values[0][0] if all(name in one for side in values for one in side)]
    means = [{name: _mean([one[name] for one in side]) for name in names} for side in values]
    return {
        "problems": len(common),
        "notes": notes + _unlike(sides) + [f"not available with {samples} samples: K = {k}" for k in ks or () if k > samples],
        "metrics": {s.name: _metrics(m, v) for s, m, v in zip(sides, means, values, strict=True)},
        "differences": {
            s.name: _differences(means[0], m, values[0], v) for s, m, v in zip(sides[1:], means[1:], values[1:], strict=True)
        },
        "changes": {
            s.name: _changes(seeds[0][0], one[0], common) for s, one in zip(sides[1:], seeds[1:], strict=True)
        },
    }  # fmt: skip


def correct(tasks: Mapping[str, dict[str, Any]]) -> None:
    """Add `p_holm` to every difference: its p corrected over the tasks of the comparison, for each side and metric."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for task, one in tasks.items():
        for side, metrics in one["differences"].items():
            for metric, difference in metrics.items():
                found.setdefault((side, metric), {})[task] = difference
    for differences in found.values():
        for task, p in holm({task: one["p"] for task, one in differences.items()}).items():
            differences[task]["p_holm"] = p


def doubling(samples: int) -> list[int]:
    """1, 2, 4, ... and `samples` itself."""
    return sorted({2**i for i in range(samples.bit_length())} | {samples}) if samples else []


def _matched(sides: Sequence[Side], seeds: Sequence[Sequence[Problems]]) -> tuple[list[str], list[str]]:
    """The problems that all have, in the first one's order, and a note on those left out."""
    every = [one for side in seeds for one in side]
    common = [problem for problem in every[0] if all(problem in one for one in every[1:])]
    names = ", ".join(side.name for side in sides)
    if not common:
        expected = "evaluations on the same problems: they are matched by id"
        raise UsageError("no problem in common", value=names, expected=expected)
    for problem in common:
        answers = {one[problem][0]["answer"] for one in every}
        if len(answers) > 1:
            raise UsageError(
                f"problem {problem!r} is not the same everywhere", value=" / ".join(sorted(map(str, answers))),
                expected="one reference answer", remedy="evaluate on the same data",
            )  # fmt: skip
    left = {p for one in every for p in one} - set(common)
    return common, [f"{len(left)} problems that not all have were left out"] if left else []


def _unlike(sides: Sequence[Side]) -> list[str]:
    notes = []
    for name in SETTINGS:
        held = {side.name: sorted({str(s[name]) for s in side.settings if name in s}) for side in sides}
        if len({value for values in held.values() for value in values}) > 1:
            notes.append(f"{name} differs: " + ", ".join(f"{side} {' and '.join(v)}" for side, v in held.items() if v))
    return notes


def _samples(problems: Problems) -> int:
    return sum(row["sample"] != GREEDY for row in next(iter(problems.values())))


def _mean(values: Sequence[Vector]) -> Vector:
    total: Vector = np.mean(values, axis=0)
    return total


def _metrics(means: Values, seeds: Sequence[Values]) -> dict[str, Any]:
    """Mean and 95 % interval over problems; with several seeds also each one's mean and the interval over them."""
    found: dict[str, Any] = {}
    for name, one in intervals(means).items():
        found[name] = asdict(one)
        each = [float(np.nanmean(held[name])) for held in seeds]
        spread = over_seeds(each)
        if spread:
            found[name] |= {"seeds": each, "over_seeds": asdict(spread)}
    return found


def _differences(a: Values, b: Values, a_seeds: Sequence[Values], b_seeds: Sequence[Values]) -> dict[str, Any]:
    """What b has more than a: their means over seeds, and each seed's values."""
    found: dict[str, Any] = {}
    for name in a:
        both = np.isfinite(a[name]) & np.isfinite(b[name])
        if not both.any():
            continue
        x, y = a[name][both], b[name][both]
        plain = len(a_seeds) == len(b_seeds) == 1
        over_problems = paired_difference(x, y, INTERVAL_SEED) if plain else interval(y - x, INTERVAL_SEED)
        found[name] = {**asdict(over_problems), "p": permutation_p(y - x, INTERVAL_SEED)}
        seeds = difference_over_seeds(*([float(np.nanmean(one[name])) for one in side] for side in (a_seeds, b_seeds)))
        if seeds:
            found[name]["over_seeds"] = asdict(seeds)
    return found


def _changes(a: Problems, b: Problems, common: Sequence[str]) -> dict[str, list[str]]:
    """Problems that only the second side solves, and only the first (of several seeds the first): by the greedy response, or
    without one by more than half of the samples."""
    before, after = ({p: _solved(one[p]) for p in common} for one in (a, b))
    return {
        "gained": [p for p in common if after[p] and not before[p]],
        "lost": [p for p in common if before[p] and not after[p]],
    }


def _solved(rows: Sequence[Row]) -> bool:
    greedy = [row for row in rows if row["sample"] == GREEDY]
    right = [row["verdict"] == Verdict.RIGHT for row in greedy or rows]
    return 2 * sum(right) > len(right)
