"""The GRPO objective of one micro-batch, put together from its parts as the config says."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from es_mpi.config.schema import GrpoPhase
from es_mpi.gradient.losses import clipped, engine_weight, kl, policy_loss, weighted_sum


@dataclass(frozen=True, slots=True)
class Frozen:
    """What a micro-batch holds beside its tokens, none of it with a gradient. Log-probabilities are [B, R].

    `engine` is what the engine said when it drew the tokens, `old` the trainer's before the first step on the batch (None: there
    is no step before this one), `ref` the reference's (None: no KL loss). `advantages` is [B, 1].
    """

    advantages: Tensor
    weights: Tensor
    engine: Tensor
    old: Tensor | None
    ref: Tensor | None


def grpo_loss(logp: Tensor, frozen: Frozen, settings: GrpoPhase) -> tuple[Tensor, dict[str, Tensor]]:
    """L = agg(w l) + beta_ref agg(KL): this micro-batch's part of it, and what to log, which adds up over parts in the same way.

    l is `policy_loss`, w the truncated weight of the gap between trainer and engine.
    """
    old = logp.detach() if frozen.old is None else frozen.old
    range_ = {"clip_low": settings.clip_low, "clip_high": settings.clip_high}
    values = policy_loss(logp, old, frozen.advantages, dual_clip=settings.dual_clip, **range_)
    if settings.is_cap is not None:
        values = values * engine_weight(old, frozen.engine, cap=settings.is_cap)
    loss = weighted_sum(values, frozen.weights)
    logged = {"clip_frac": weighted_sum(clipped(logp, old, frozen.advantages, **range_).to(logp.dtype), frozen.weights)}
    if frozen.ref is not None:
        divergence = weighted_sum(kl(logp, frozen.ref, settings.kl), frozen.weights)
        loss = loss + settings.beta_ref * divergence
        logged["kl"] = divergence
    return loss, {name: value.detach() for name, value in {"loss": loss, **logged}.items()}
