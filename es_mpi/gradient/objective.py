"""The GRPO and ED-GRPO objective of one micro-batch, put together from its parts as the config says."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from es_mpi.config.schema import EdGrpoPhase, PolicyPhase
from es_mpi.gradient.edo import full_repulsion, open_gate, repulsion
from es_mpi.gradient.losses import clipped, engine_weight, kl, policy_loss, weighted_sum
from es_mpi.gradient.rows import Policy, Rows

Logged = dict[str, Tensor]
"""Values of one micro-batch by name; those of all micro-batches and ranks add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Tokens, and log-probabilities of them [B, R] that carry no gradient.

    `engine` is what the engine said when it drew the tokens, `old` the trainer's before the first step on them (None: there is
    no step before this one), `ref` the reference's (None: there is none).
    """

    rows: Rows
    engine: Tensor
    old: Tensor | None
    ref: Tensor | None

    def start(self, policy: Policy) -> Tensor:
        """log pi_old: where nothing has moved yet, that of the policy itself."""
        return policy.logp.detach() if self.old is None else self.old


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBatch(MicroBatch):
    """`advantages` is [B, 1]; `weights` and `pushed` are the weights of tokens in the loss and in the exploration term."""

    advantages: Tensor
    weights: Tensor
    pushed: Tensor


def policy_objective(policy: Policy, batch: PolicyBatch, settings: PolicyPhase) -> tuple[Tensor, Logged]:
    """L = agg(w l) + beta_ref agg(KL(pi || pi_ref)): this micro-batch's part of it, and what to log.

    l is `policy_loss`, w the truncated weight of the gap between trainer and engine.
    """
    logp, old = policy.logp, batch.start(policy)
    range_ = {"clip_low": settings.clip_low, "clip_high": settings.clip_high}
    values = policy_loss(logp, old, batch.advantages, dual_clip=settings.dual_clip, **range_)
    if settings.is_cap is not None:
        values = values * engine_weight(old, batch.engine, cap=settings.is_cap)
    loss = weighted_sum(values, batch.weights)
    logged = {"clip_frac": weighted_sum(clipped(logp, old, batch.advantages, **range_).to(logp.dtype), batch.weights)}
    if batch.ref is not None:
        divergence = weighted_sum(kl(logp, batch.ref, settings.kl), batch.weights)
        loss = loss + settings.beta_ref * divergence
        logged["kl"] = divergence
    return loss, {name: value.detach() for name, value in {"loss": loss, **logged}.items()}


def exploration(policy: Policy, prev: Policy, batch: PolicyBatch, settings: EdGrpoPhase) -> tuple[Tensor, Logged]:
    """agg(K_edo), to be subtracted kappa times; logged are sums over tokens: `kl_prev`, an estimate of KL(pi_prev || pi) that is
    never negative, and `gated`, the tokens that the gate holds back."""
    edo, old = settings.edo, batch.start(policy)
    weighted = {"logp_old": old, "cap": edo.is_cap}
    if edo.estimator == "full":
        values = full_repulsion(policy.log_probs, prev.log_probs)
        distance = values.detach()
    else:
        values = repulsion(policy.logp, prev.logp, edo.estimator, gate=edo.gate, **weighted)
        distance = repulsion(policy.logp, prev.logp, "k3", **weighted).detach()
    gated = 0.0 if edo.gate is None else (~open_gate(policy.logp, prev.logp, edo.gate)).to(old.dtype)
    mask, term = batch.rows.mask, weighted_sum(values, batch.pushed)
    return term, {"term": term.detach(), "kl_prev": weighted_sum(distance, mask), "gated": (gated * mask).sum()}
