"""Exploration-driven optimisation (arXiv 2605.09853): terms that push the policy away from the previous iterate pi_prev.

pi_prev is the frozen policy at the start of the outer iteration, not the policy that sampled the last batch: against the
sampling policy an exact term has no gradient at all. The paper's own constants are not public; the defaults here are ours.

Unlike an entropy bonus, the term has zero gradient at pi = pi_prev and then extends the step just taken. It is unbounded
below: what holds it are the KL loss to the reference (kappa < beta_ref), the gate, and the cap on KL an iteration.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from es_mpi.gradient.losses import ratio

EdoEstimator = Literal["k1", "k3"]


def repulsion(
    logp: Tensor,
    logp_prev: Tensor,
    estimator: EdoEstimator,
    *,
    gate: float | None = None,
    logp_old: Tensor | None = None,
    cap: float = 2.0,
) -> Tensor:
    """K_edo a token, an estimate of KL(pi_prev || pi) from tokens of pi_prev, with q = pi / pi_prev:

        k1 = -log q        k3 = q - 1 - log q        L = L_GRPO - kappa * agg(K_edo)

    `gate` e keeps only tokens with q > 1 - e: what was pushed down already is not pushed further. `logp_old` is given where the
    tokens were drawn from pi_old: each is then weighted by min(pi_prev / pi_old, cap). Gate and weight carry no gradient.
    """
    log_q = logp - logp_prev
    value = -log_q if estimator == "k1" else ratio(logp, logp_prev) - 1 - log_q
    if gate is not None:
        value = torch.where(open_gate(logp, logp_prev, gate), value, torch.zeros_like(value))
    if logp_old is not None:
        value = value * ratio(logp_prev, logp_old).detach().clamp(max=cap)
    return value


def open_gate(logp: Tensor, logp_prev: Tensor, gate: float) -> Tensor:
    """Where q > 1 - gate, strictly."""
    return ratio(logp, logp_prev).detach() > 1 - gate


def full_repulsion(log_probs: Tensor, log_probs_prev: Tensor) -> Tensor:
    """KL(pi_prev || pi) of next-token distributions, summed over the vocabulary: shapes [..., V] to [...].

    Its gradient with respect to logits is pi - pi_prev.
    """
    return (log_probs_prev.exp() * (log_probs_prev - log_probs)).sum(dim=-1)


def without_end(mask: Tensor, token_ids: Tensor, end_ids: Tensor) -> Tensor:
    """`mask` without end-of-text tokens: pushing those down would only make responses longer."""
    return mask * ~torch.isin(token_ids, end_ids)


def sequence_exploration(delta: Tensor, candidate_weights: Tensor, *, beta: float) -> Tensor:
    """J = -beta * mean_x mean_i Delta(y_i), Delta = log pi(y) - log pi_ref(y) summed over tokens; ED-iDPO adds -alpha J.

    The mean is over ALL N candidates that pi_prev drew for each prompt, paired or not: winners and losers alone are another
    distribution. `delta` and `candidate_weights` have shape [candidates].
    """
    return -beta * (candidate_weights * delta).sum()


def candidate_weights(group_sizes: Tensor, prompts: int) -> Tensor:
    """1 / (X N_x) of each candidate: `group_sizes` [candidates] holds N_x of its prompt, X = `prompts` counts all ranks'."""
    return 1.0 / (prompts * group_sizes)
