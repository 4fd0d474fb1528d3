"""DPO, its NLL term and ED-iDPO, against values worked out apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from es_mpi.gradient.edo import candidate_weights, sequence_exploration
from es_mpi.gradient.preference import dpo_loss, sequence_delta, winner_nll

EXACT = 1e-9


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("winner", "loser", "beta", "loss", "slope"),
    [
        (0.5, -0.3, 0.1, 0.653946967318, -0.0480010660),
        (0.5, -0.3, 0.5, 0.513015252400, -0.2006561699),
        (0.0, 0.0, 0.1, 0.693147180560, -0.05),
        (-1.0, -3.0, 0.1, 0.598138869382, -0.0450166003),
    ],
)
def test_dpo(winner: float, loser: float, beta: float, loss: float, slope: float) -> None:
    w = f64(winner).requires_grad_()
    found = dpo_loss(w, f64(loser), beta=beta)
    assert found.item() == pytest.approx(loss, abs=EXACT)
    assert torch.autograd.grad(found, w)[0].item() == pytest.approx(slope, abs=EXACT)


def test_dpo_of_a_hopeless_margin_is_finite() -> None:
    assert dpo_loss(torch.tensor(-1e4), torch.tensor(1e4), beta=1.0).item() == pytest.approx(2e4)


def test_ed_idpo_over_all_candidates() -> None:
    beta, alpha = 0.1, 0.01
    logp = f64([-10.0, -12.0, -9.0]).requires_grad_()
    delta = logp - f64([-10.5, -11.7, -9.1])
    dpo = dpo_loss(delta[0], delta[1], beta=beta)
    j = sequence_exploration(delta, candidate_weights(f64([3, 3, 3]), prompts=1), beta=beta)
    assert j.item() == pytest.approx(-0.01, abs=EXACT)
    assert (dpo - alpha * j).item() == pytest.approx(0.654046967318, abs=EXACT)
    assert torch.autograd.grad(-alpha * j, logp, retain_graph=True)[0] == pytest.approx(f64([alpha * beta / 3] * 3), abs=EXACT)
    nll = winner_nll(f64([[-2.0] * 5, [-1.0, -9.0, -0.0, 0.0, 0.0]]), f64([[1] * 5, [1, 1, 0, 0, 0]]))
    assert nll.tolist() == [2.0, 5.0]
    assert (dpo + nll[0] - alpha * j).item() == pytest.approx(2.654046967318, abs=EXACT)


def test_one_candidate_a_prompt_is_xpo() -> None:
    dpo = dpo_loss(f64(0.5), f64(-0.3), beta=0.1)
    xpo = dpo - sequence_exploration(f64([-12.0]), candidate_weights(f64([1]), prompts=1), beta=1e-5)
    assert xpo.item() == pytest.approx(0.653826967318, abs=EXACT)


def test_exploration_is_the_kl_to_the_previous_policy() -> None:
    prev, policy = f64([0.7, 0.3]), f64([0.5, 0.5])
    j = sequence_exploration(policy.log() - prev.log(), prev, beta=0.1)
    assert j.item() == pytest.approx(0.00822828785051, abs=1e-12)
    reward = 0.1 * (policy / prev).log() + j  # calibrated: zero mean under the previous policy
    assert reward == pytest.approx(f64([-0.02541894, 0.05931085]), abs=1e-8)
    assert (prev * reward).sum().item() == pytest.approx(0.0, abs=1e-12)
    assert 0.1 * torch.logsumexp(prev.log() + reward / 0.1, 0).item() == pytest.approx(j.item(), abs=1e-12)


@pytest.mark.parametrize(("share", "margin"), [(1e-3, 6.90675478), (0.01, 4.59511985), (0.1, 2.19722458)])
def test_exploration_caps_the_margin_of_a_winner(share: float, margin: float) -> None:
    beta = 0.1
    delta = f64(margin / beta).requires_grad_()
    total = dpo_loss(delta, f64(0.0), beta=beta) + share * beta * delta
    assert torch.autograd.grad(total, delta)[0].item() == pytest.approx(0.0, abs=1e-10)
    assert margin == pytest.approx(math.log((1 - share) / share), abs=1e-8)


def test_prompts_weigh_alike_whatever_their_candidates() -> None:
    weights = candidate_weights(f64([2, 2, 4, 4, 4, 4]), prompts=2)
    assert weights.tolist() == [0.25, 0.25, 0.125, 0.125, 0.125, 0.125]


def test_delta_sums_over_the_tokens_of_a_response() -> None:
    found = sequence_delta(f64([[-1, -2, 7], [-3, -1, -1]]), f64([[-2, -2, 3], [-1, -1, -1]]), f64([[1, 1, 0], [1, 1, 1]]))
    assert found.tolist() == [1.0, -2.0]
