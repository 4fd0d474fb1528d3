"""The token losses of GRPO, DAPO and Dr. GRPO, and the weights that sum them to one number over all ranks.

Every function of log-probabilities gives one value a token, shape [sequences, tokens] like its arguments; pi is the policy at
the temperature it sampled with. `token_weights` turns values into the objective: the sum of weight * value over every rank
and micro-batch is the aggregate over the whole batch, however it was divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["seq-mean-token-mean", "token-mean", "seq-mean-token-sum-norm"]
KlEstimator = Literal["k1", "k2", "k3", "k3+"]

MAX_LOG_RATIO = 20.0  # beyond it exp() says nothing but "very different", and overflows fp32 at 88


def ratio(logp: Tensor, logp_other: Tensor) -> Tensor:
    """pi / pi_other from log-probabilities, the logarithm held within +-20."""
    return (logp - logp_other).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def policy_loss(
    logp: Tensor, logp_old: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> Tensor:
    """l = -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) with rho = pi / pi_old.

    `dual_clip` c > 1 bounds l by -c A where A < 0, whatever rho. `advantages` has shape [sequences, 1] or a value a token.
    """
    rho = ratio(logp, logp_old)
    surrogate = torch.minimum(rho * advantages, rho.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if dual_clip is not None:
        surrogate = torch.where(advantages < 0, torch.maximum(surrogate, dual_clip * advantages), surrogate)
    return -surrogate


def clipped(logp: Tensor, logp_old: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float) -> Tensor:
    """Where clipping stops the gradient of `policy_loss`: rho above 1 + clip_high for A > 0, below 1 - clip_low for A < 0."""
    rho = ratio(logp, logp_old)
    return ((advantages > 0) & (rho > 1 + clip_high)) | ((advantages < 0) & (rho < 1 - clip_low))


def kl(logp: Tensor, logp_ref: Tensor, estimator: KlEstimator) -> Tensor:
    """Estimates of KL(pi || pi_ref) from tokens of pi, with x = log pi - log pi_ref:

        k1 = x      k2 = x^2 / 2      k3 = exp(-x) - 1 + x      k3+ : the value of k3 with the gradient of k2

    As a loss on tokens of pi itself, the expected gradient is 0 for k1, that of KL(pi || pi_ref) for k2 and k3+, and that of
    KL(pi_ref || pi) for k3. Nothing is clamped but the logarithm inside exp: a ceiling on k3 would let go of the policy just
    where it is far away.
    """
    x = logp - logp_ref
    if estimator == "k1":
        return x
    k2 = x.square() / 2
    if estimator == "k2":
        return k2
    k3 = ratio(logp_ref, logp) - 1 + x
    return k3 if estimator == "k3" else k2 + (k3 - k2).detach()


def engine_weight(logp_old: Tensor, logp_engine: Tensor, *, cap: float, floor: float | None = None) -> Tensor:
    """Truncated importance weight of the gap between trainer and engine: w = min(pi_old / pi_engine, cap), no gradient.

    With `floor`, tokens whose ratio lies outside [floor, cap] get 0 instead.
    """
    weight = ratio(logp_old, logp_engine).detach()
    if floor is None:
        return weight.clamp(max=cap)
    return torch.where((weight >= floor) & (weight <= cap), weight, torch.zeros_like(weight))


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole batch, all ranks and micro-batches together: what means are divided by."""

    sequences: int
    tokens: int


def token_weights(mask: Tensor, aggregation: Aggregation, totals: Totals, *, max_tokens: int) -> Tensor:
    """The weight of each token in the objective, 0 where `mask` [sequences, tokens] (ones and zeros in float) is:

        seq-mean-token-mean       1 / (G T_i)       GRPO (arXiv 2402.03300)
        token-mean                1 / sum_i T_i     DAPO (arXiv 2503.14476)
        seq-mean-token-sum-norm   1 / (G L_max)     Dr. GRPO (arXiv 2503.20783), L_max = `max_tokens`

    G counts sequences and T_i their tokens; a sequence without a token counts in G and adds nothing.
    """
    if aggregation == "token-mean":
        return mask / totals.tokens
    if aggregation == "seq-mean-token-sum-norm":
        return mask / (totals.sequences * max_tokens)
    return mask / (totals.sequences * mask.sum(dim=-1, keepdim=True).clamp(min=1))


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """sum of weight * value; what has weight 0 (padding) is not looked at, so it may hold anything, in the gradient too."""
    return (torch.where(weights != 0, values, torch.zeros_like(values)) * weights).sum()
