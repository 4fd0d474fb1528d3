"""Direct preference optimisation, and what iterative reasoning preference optimisation adds to it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def sequence_delta(logp: Tensor, logp_ref: Tensor, mask: Tensor) -> Tensor:
    """Delta(y) = sum_t log pi(y_t) - log pi_ref(y_t), shapes [sequences, tokens] to [sequences]."""
    return ((logp - logp_ref) * mask).sum(dim=-1)


def dpo_loss(delta_winner: Tensor, delta_loser: Tensor, *, beta: float) -> Tensor:
    """-log sigmoid(beta (Delta(y_w) - Delta(y_l))) a pair (arXiv 2305.18290), as softplus: exact for any margin."""
    return F.softplus(-beta * (delta_winner - delta_loser))


def winner_nll(logp: Tensor, mask: Tensor) -> Tensor:
    """-(1 / |y_w|) sum_t log pi(y_w,t) a winner: the length-normalised term of IRPO (arXiv 2404.19733)."""
    return -(logp * mask).sum(dim=-1) / mask.sum(dim=-1)
