"""What several responses to each problem say about a model: Pass@K, Maj@K, Distinct-n.

`right` is a boolean array [problems, samples]; `answers` holds the same samples as the graders extracted them: in
normal form, so that equivalent answers are equal texts, with None or "" for no answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import comb

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, c of them right, drawn without replacement, hold a right one: 1 - C(n-c,k)/C(n,k).

    Unbiased for the chance that k fresh samples do (Chen et al. 2021, arXiv 2107.03374); integers until the one
    division. Raises ValueError unless 0 <= c <= n and 1 <= k <= n: n samples say nothing about more than n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} of {n} samples with {c} right is not defined: needs 0 <= c <= n and 1 <= k <= n")
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def guess_pass_at_k(choices: int, k: int) -> float:
    """Pass@K of random guessing among `choices` options, 1 - (1 - 1/choices)^k: what Pass@K on multiple choice must beat."""
    return float(1 - (1 - 1 / choices) ** k)


def majority(answers: Sequence[str | None]) -> int | None:
    """Index of the earliest sample that gives the most frequent answer; None if all are blank.

    Blanks abstain. Of answers with equally many votes, the one that occurs first wins.
    """
    votes: dict[str, int] = {}
    for answer in answers:
        if answer:
            votes[answer] = votes.get(answer, 0) + 1
    # A dict keeps the order of first occurrence, and max takes the first of equals.
    return answers.index(max(votes, key=lambda answer: votes[answer])) if votes else None


def maj_at_k(answers: Sequence[str | None], right: Sequence[bool] | Flags, k: int) -> bool:
    """Is the majority of the first k samples of one problem right? All blank is wrong. ValueError unless 1 <= k <= samples."""
    if not 1 <= k <= len(answers):
        raise ValueError(f"maj@{k} of {len(answers)} samples is not defined")
    winner = majority(answers[:k])
    return winner is not None and bool(right[winner])


def sample_metrics(right: Flags, answers: Sequence[Sequence[str | None]], ks: Sequence[int]) -> dict[str, Vector | None]:
    """Per-problem values (float64 [problems]) of pass@1, and of pass@k and maj@k for every k of `ks`, by name.

    Their mean is the metric; keeping the problems apart is what intervals and comparisons need. None says "not
    available": k exceeds the number of samples. With one greedy sample a problem, pass@1 is the greedy accuracy.
    """
    problems, samples = right.shape
    table: dict[str, Vector | None] = {}
    for k in sorted({1, *ks}):
        if k > samples:
            table[f"pass@{k}"] = table[f"maj@{k}"] = None
            continue
        by_count = np.array([pass_at_k(samples, c, k) for c in range(samples + 1)])
        table[f"pass@{k}"] = by_count[right.sum(axis=1)]
        table[f"maj@{k}"] = np.array([float(maj_at_k(answers[i], right[i], k)) for i in range(problems)])
    del table["maj@1"]  # the first sample alone: a noisy pass@1
    return table


def distinct_n(samples: Sequence[Sequence[Hashable]], n: int = 4) -> float:
    """Distinct n-grams over all n-grams, pooled over the samples of one prompt (token ids or words); 0 without any n-gram.

    Falls with length: compare models at equal length, `[sample[:512] for sample in samples]`.
    """
    grams = [tuple(sample[i : i + n]) for sample in samples for i in range(len(sample) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0
