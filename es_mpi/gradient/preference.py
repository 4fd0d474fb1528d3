"""Direct preference optimisation, what iterative reasoning preference optimisation adds to it, and ED-iDPO's exploration.

    L = mean over pairs (-log sigmoid(beta (Delta(y_w) - Delta(y_l))) + lambda NLL(y_w)) - alpha J
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from es_mpi.config.schema import EdIdpoPhase, PreferencePhase
from es_mpi.gradient.edo import open_gate, repulsion, sequence_exploration
from es_mpi.gradient.losses import weighted_sum
from es_mpi.gradient.objective import Logged, MicroBatch
from es_mpi.gradient.rows import Policy


def sequence_delta(logp: Tensor, logp_ref: Tensor, mask: Tensor) -> Tensor:
    """Delta(y) = sum_t log pi(y_t) - log pi_ref(y_t), shapes [sequences, tokens] to [sequences]."""
    return torch.where(mask != 0, logp - logp_ref, torch.zeros_like(logp)).sum(dim=-1)


def dpo_loss(delta_winner: Tensor, delta_loser: Tensor, *, beta: float) -> Tensor:
    """-log sigmoid(beta (Delta(y_w) - Delta(y_l))) a pair (arXiv 2305.18290), as softplus: exact for any margin."""
    return F.softplus(-beta * (delta_winner - delta_loser))


def winner_nll(logp: Tensor, mask: Tensor) -> Tensor:
    """-(1 / |y_w|) sum_t log pi(y_w,t) a winner: the length-normalised term of IRPO (arXiv 2404.19733). 0 without a token."""
    return -torch.where(mask != 0, logp, torch.zeros_like(logp)).sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBatch(MicroBatch):
    """Rows `winners` [P] and `losers` [P] make pairs, each weighing `pair_weight`, 1 / all pairs of the optimiser step.

    `candidates` [B] are the rows' weights in J (`candidate_weights`; zeros without exploration), `pushed` [B, R] its tokens.
    """

    winners: Tensor
    losers: Tensor
    pair_weight: float
    candidates: Tensor
    pushed: Tensor


def preference_objective(policy: Policy, batch: PairBatch, settings: PreferencePhase, explores: bool) -> tuple[Tensor, Logged]:
    """This micro-batch's part of L, and what to log: means over pairs (`logp_chosen` is Delta(y_w)), J, and sums over tokens.

    The reference is the policy at the update's start where the batch has none. `explores` False leaves out the last term.
    """
    logp, mask, start = policy.logp, batch.rows.mask, batch.start(policy)
    ref = start if batch.ref is None else batch.ref
    delta = sequence_delta(logp, ref, mask)
    winner, loser = delta[batch.winners], delta[batch.losers]
    losses = dpo_loss(winner, loser, beta=settings.beta)
    if settings.nll:
        losses = losses + settings.nll * winner_nll(logp[batch.winners], mask[batch.winners])
    loss = batch.pair_weight * losses.sum()
    logged = {
        "margin": batch.pair_weight * settings.beta * (winner - loser).sum(),
        "accuracy": batch.pair_weight * (winner > loser).sum(),
        "logp_chosen": batch.pair_weight * winner.sum(),
        "kl_prev": weighted_sum(repulsion(logp, start, "k3"), mask),
    }
    if isinstance(settings, EdIdpoPhase):
        tokens, gate = batch.pushed, settings.edo.gate
        if gate is not None:
            is_open = open_gate(logp, start, gate)
            tokens = tokens * is_open
            logged["gated"] = (~is_open * mask).sum()
        j = sequence_exploration(sequence_delta(logp, ref, tokens), batch.candidates, beta=settings.beta)
        logged["term"] = j
        loss = loss - settings.alpha * j if explores else loss
    return loss, {name: value.detach() for name, value in {"loss": loss, **logged}.items()}
