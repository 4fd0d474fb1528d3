"""Token losses, KL estimators, importance weights and aggregation, against hand-made values and exact identities."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from es_mpi.gradient import losses
from es_mpi.gradient.losses import Totals, engine_weight, kl, policy_loss, token_weights, weighted_sum

EXACT = 1e-9


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def gradient(value: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(value, of)[0]


@pytest.mark.parametrize(
    ("rho", "advantage", "clip_high", "dual", "loss", "moves"),
    [
        (1.3, 1.0, 0.2, None, -1.2, False),
        (0.7, 1.0, 0.2, None, -0.7, True),
        (1.3, -1.0, 0.2, None, 1.3, True),
        (0.7, -1.0, 0.2, None, 0.8, False),
        (1.3, 1.0, 0.28, None, -1.28, False),  # clip higher
        (5.0, -1.0, 0.2, 3.0, 3.0, False),  # dual clip
        (2.0, -1.0, 0.2, 3.0, 2.0, True),
        (5.0, 1.0, 0.2, 3.0, -1.2, False),  # it leaves positive advantages alone
        (1.0, 1.0, 0.2, None, -1.0, True),
    ],
)
def test_policy_loss(rho: float, advantage: float, clip_high: float, dual: float | None, loss: float, moves: bool) -> None:
    logp = f64([[math.log(rho)]]).requires_grad_()
    old, a = f64([[0.0]]), f64([[advantage]])
    found = policy_loss(logp, old, a, clip_low=0.2, clip_high=clip_high, dual_clip=dual)
    assert found.item() == pytest.approx(loss, abs=EXACT)
    assert gradient(found.sum(), logp).item() == pytest.approx(-rho * advantage if moves else 0.0, abs=EXACT)


@pytest.mark.parametrize(
    ("rho", "advantage", "stopped"),
    [(1.3, 1.0, True), (1.3, -1.0, False), (0.7, 1.0, False), (0.7, -1.0, True), (1.1, 1.0, False), (1.3, 0.0, False)],
)
def test_clipped_tokens_are_those_that_no_longer_move(rho: float, advantage: float, stopped: bool) -> None:
    logp, old, a = f64([[math.log(rho)]]), f64([[0.0]]), f64([[advantage]])
    assert bool(losses.clipped(logp, old, a, clip_low=0.2, clip_high=0.2)) == stopped


def test_kl_estimators_at_a_log_ratio_of_a_fifth() -> None:
    values = {"k1": 0.2, "k2": 0.02, "k3": 0.018730753077981868, "k3+": 0.018730753077981868}
    slopes = {"k1": 1.0, "k2": 0.2, "k3": 1 - math.exp(-0.2), "k3+": 0.2}
    for name, value in values.items():
        logp = f64([-0.8]).requires_grad_()
        found = kl(logp, f64([-1.0]), name)  # type: ignore[arg-type]
        assert found.item() == pytest.approx(value, abs=EXACT)
        assert gradient(found.sum(), logp).item() == pytest.approx(slopes[name], abs=EXACT)


def expected_gradient(name: str) -> Tensor:
    """E over pi of the gradient of an estimator with respect to the logits of pi."""
    logits, ref = f64([0.2, -0.1, 0.4]).requires_grad_(), f64([0.2, 0.5, 0.3]).log()
    log_probs = logits.log_softmax(-1)
    return gradient((log_probs.exp().detach() * kl(log_probs, ref, name)).sum(), logits)  # type: ignore[arg-type]


def test_expected_gradients_of_the_kl_estimators() -> None:
    logits, ref = f64([0.2, -0.1, 0.4]).requires_grad_(), f64([0.2, 0.5, 0.3])
    log_probs = logits.log_softmax(-1)
    forward = gradient((log_probs.exp() * (log_probs - ref.log())).sum(), logits)
    assert expected_gradient("k1") == pytest.approx(torch.zeros(3, dtype=torch.float64), abs=EXACT)
    assert expected_gradient("k2") == pytest.approx(forward, abs=EXACT)
    assert expected_gradient("k3+") == pytest.approx(forward, abs=EXACT)
    assert expected_gradient("k3") == pytest.approx(logits.detach().softmax(-1) - ref, abs=EXACT)
    assert forward == pytest.approx(f64([0.13128643, -0.20692128, 0.07563486]), abs=1e-8)
    assert expected_gradient("k3") == pytest.approx(f64([0.13758454, -0.24991122, 0.11232669]), abs=1e-8)


def test_k3_still_holds_a_policy_that_is_far_away() -> None:
    logp = f64([-8.0]).requires_grad_()
    assert gradient(kl(logp, f64([-1.0]), "k3").sum(), logp).item() == pytest.approx(1 - math.exp(7.0))


@pytest.mark.parametrize(("kappa", "probability"), [(5e-4, 0.2), (1e-3, 0.15), (1e-2, 0.3 / 11)])
def test_where_k3_holds_a_repelled_token(kappa: float, probability: float) -> None:
    logp = f64([math.log(probability)]).requires_grad_()
    total = 1e-3 * kl(logp, f64([math.log(0.3)]), "k3") + kappa * logp
    assert gradient(total.sum(), logp).item() == pytest.approx(0.0, abs=1e-12)


def test_extreme_log_ratios_stay_finite() -> None:
    logp = torch.tensor([[-500.0, 0.0]], requires_grad=True)
    old = torch.tensor([[0.0, -500.0]])
    found = policy_loss(logp, old, torch.tensor([[-1.0]]), clip_low=0.2, clip_high=0.2) + kl(logp, old, "k3")
    assert torch.isfinite(found).all()
    assert torch.isfinite(gradient(found.sum(), logp)).all()


def test_engine_weight() -> None:
    engine = f64([0.0, 0.0, 0.0])
    logp = f64([0.0, 1.0, -1.0]).requires_grad_()
    found = engine_weight(logp, engine, cap=2.0)
    assert found.tolist() == pytest.approx([1.0, 2.0, math.exp(-1)], abs=EXACT)
    assert not found.requires_grad
    assert engine_weight(logp, engine, cap=2.0, floor=0.5).tolist() == [1.0, 0.0, 0.0]


MASK = f64([[1, 1, 0, 0], [1, 1, 1, 1]])
VALUES = f64([[3, 1, math.nan, math.inf], [1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("aggregation", "max_tokens", "expected"),
    [
        ("seq-mean-token-mean", 8, 1.5),
        ("token-mean", 8, 4 / 3),
        ("seq-mean-token-sum-norm", 8, 0.5),
        ("seq-mean-token-sum-norm", 1, 4.0),
    ],
)
def test_aggregation(aggregation: losses.Aggregation, max_tokens: int, expected: float) -> None:
    weights = token_weights(MASK, aggregation, Totals(2, 6), max_tokens=max_tokens)
    assert weighted_sum(VALUES, weights).item() == pytest.approx(expected, abs=EXACT)
    parts = [
        weighted_sum(VALUES[i : i + 1], token_weights(MASK[i : i + 1], aggregation, Totals(2, 6), max_tokens=max_tokens))
        for i in range(2)
    ]
    assert sum(part.item() for part in parts) == pytest.approx(expected, abs=EXACT)  # however the batch is divided


def test_padding_never_reaches_the_gradient() -> None:
    logp = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    weights = token_weights(MASK, "token-mean", Totals(2, 6), max_tokens=4)
    slope = gradient(weighted_sum((logp * VALUES).exp(), weights), logp)
    assert torch.isfinite(slope[MASK == 1]).all()
    assert weighted_sum(torch.where(MASK == 1, logp, math.nan), weights).item() == 0.0


def test_a_response_without_a_token_counts_as_a_response() -> None:
    mask = f64([[0, 0], [1, 1]])
    weights = token_weights(mask, "seq-mean-token-mean", Totals(2, 2), max_tokens=2)
    assert weighted_sum(f64([[9, 9], [1, 1]]), weights).item() == 0.5
