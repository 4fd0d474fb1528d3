"""What repulsion from the previous iterate does to a softmax bandit: tests 4 and 5 of the specification's section 14.10.

12 arms, 4 of them right, 12 outer iterations of 20 steps each on the exact gradient of the expected reward and on the repulsion
of arms drawn from the iteration's start; 40 seeds at once.
"""

from __future__ import annotations

import pytest
import torch

from es_mpi.gradient.edo import EdoEstimator, repulsion

SEEDS, ARMS, RIGHT, OUTER, INNER, SAMPLES, RATE = 40, 12, 4, 12, 20, 64, 0.25


def entropy(logits: torch.Tensor) -> torch.Tensor:
    logs = logits.log_softmax(-1)
    return -(logs.exp() * logs).sum(-1)


def final_entropies(kappa: float, estimator: EdoEstimator = "k1", gate: float | None = None) -> torch.Tensor:
    """[seeds], in nats."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(SEEDS, ARMS, generator=generator, dtype=torch.float64).requires_grad_()
    for _ in range(OUTER):
        prev = logits.detach().log_softmax(-1)
        drawn = torch.multinomial(prev.exp(), SAMPLES, replacement=True, generator=generator)
        for _ in range(INNER):
            logs = logits.log_softmax(-1)
            reward = logs.exp()[:, :RIGHT].sum()
            term = repulsion(logs.gather(1, drawn), prev.gather(1, drawn), estimator, gate=gate).mean(1).sum()
            (gradient,) = torch.autograd.grad(reward + kappa * term, logits)
            logits = (logits.detach() + RATE * gradient).requires_grad_()
    return entropy(logits.detach())


@pytest.mark.slow
def test_only_gated_repulsion_keeps_entropy():
    plain = final_entropies(0.0).mean()
    assert final_entropies(0.5, gate=0.0).mean() > plain + 0.1
    assert final_entropies(0.5, gate=0.2).mean() > plain + 0.02
    for estimator in ("k1", "k3"):
        assert final_entropies(0.5, estimator).mean() <= plain


def test_the_k3_term_has_no_gradient_at_the_snapshot_itself():
    logits = torch.linspace(-1, 1, ARMS, dtype=torch.float64).requires_grad_()
    logs = logits.log_softmax(-1)
    (gradient,) = torch.autograd.grad(repulsion(logs, logs.detach(), "k3").sum(), logits)
    assert gradient.norm() < 1e-7
