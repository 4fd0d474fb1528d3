"""Diversity in theory and from samples. Worked values are those of the specification, 14.5, made by another program."""

from __future__ import annotations

import math

import numpy as np
import pytest

from es_mpi.analysis.estimates import fisher_trace, pairing, policy_js, rescaled, success_js_estimates
from es_mpi.analysis.theory import (
    entropy_change,
    jensen_shannon,
    log_log_slope,
    mixture_gain,
    population_success,
    predicted_js,
    success_gain,
    success_gain_from_js,
    success_gain_from_variance,
    success_js,
    transfer_loss,
)

LOGITS = np.array([0.0, 0.5, -0.5])
TRACE = 0.614391771437  # of the softmax of LOGITS


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_success_of_a_population():
    p = np.array([0.2, 0.6])
    assert population_success(p) == pytest.approx(0.68)
    assert population_success(p) - success_gain(p) == pytest.approx(0.64)
    assert success_js(p) == pytest.approx(0.08630462173553, rel=1e-11)
    assert success_gain(p) == pytest.approx(0.04)
    assert success_gain_from_js(p) == pytest.approx(0.0414262184, rel=1e-8)
    four = np.array([0.1, 0.2, 0.3, 0.4])
    assert population_success(four) == pytest.approx(0.6976)
    assert success_js(four) == pytest.approx(0.03499480312, rel=1e-9)
    assert success_gain_from_js(four) == pytest.approx(0.0147634326, rel=1e-8)
    assert success_gain_from_variance(four) == pytest.approx(0.0140625)
    assert success_gain(four) == pytest.approx(0.01400625)


def test_mixture_transfer_and_entropy():
    assert mixture_gain(np.array([0.25, 0.75]), np.array([0.2, 0.6])) == pytest.approx(0.1)
    assert transfer_loss(32, 1e-4) == pytest.approx(0.2262741699797)
    policy, advantages = np.array([0.5, 0.3, 0.2]), np.array([1.0, -1.0, -1.0])
    assert entropy_change(policy, advantages, 1e-4) == pytest.approx(-1.23006635e-5, rel=1e-7)
    grown = softmax(np.log(policy) + 1e-4 * policy * (advantages - policy @ advantages))
    actual = -grown @ np.log(grown) + policy @ np.log(policy)
    assert entropy_change(policy, advantages - policy @ advantages, 1e-4) == pytest.approx(actual, rel=1e-3)


def test_jensen_shannon_of_distributions():
    assert jensen_shannon(np.array([[0.9, 0.1], [0.5, 0.5]])) == pytest.approx(0.10174922507920, rel=1e-12)
    assert jensen_shannon(np.eye(32)) == pytest.approx(3.4657359028)
    moved = softmax(LOGITS + np.array([[0.05, 0, 0], [-0.05, 0, 0]]))
    assert jensen_shannon(moved) == pytest.approx(2.6596246193e-4, rel=1e-8)


@pytest.mark.parametrize(
    ("members", "predicted", "measured", "error"),
    [(2, 3.8399486e-4, 3.806e-4, 0.028e-4), (4, 5.7599229e-4, 5.740e-4, 0.025e-4), (32, 7.4399004e-4, 7.422e-4, 0.022e-4)],
)
def test_lemma_1_on_a_softmax(members, predicted, measured, error):
    assert predicted_js(0.05, members, TRACE) == pytest.approx(predicted, rel=1e-7)
    draws = generator(members).normal(size=(4000, members, 3))
    found = np.mean([jensen_shannon(softmax(LOGITS + 0.05 * one)) for one in draws])
    assert found == pytest.approx(measured, abs=6 * error)


def test_fisher_trace_by_central_differences():
    """Of the softmax: 1 - sum p^2, the spec's value; projection at sigma .01 gave .6126 +- .0022 there."""
    p = softmax(LOGITS)
    assert 1 - np.sum(p**2) == pytest.approx(TRACE)
    rng, sigma = generator(5), 0.01
    eps, said = rng.normal(size=(4000, 3)), rng.choice(3, size=400, p=p)
    plus, minus = (np.log(softmax(LOGITS + sign * sigma * eps))[:, said] for sign in (1, -1))
    found = fisher_trace(plus[:, None], minus[:, None], sigma)
    assert found.value == pytest.approx(TRACE, abs=4 * found.error + 0.02)
    assert 0.003 < found.error < 0.02


def members_of(sigma: float, members: int, rng: np.random.Generator) -> np.ndarray:
    return softmax(LOGITS + sigma * rng.normal(size=(members, 3)))


def logprobs_of(policies: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """[author, scorer, 1, sample]."""
    said = [rng.choice(policies.shape[1], size=samples, p=p) for p in policies]
    return np.array([[np.log(scorer)[one] for scorer in policies] for one in said])[:, :, None]


@pytest.mark.parametrize("sigma", [0.01, 0.3, 3.0])
def test_js_from_samples_is_that_of_the_distributions(sigma):
    """Also at sigma .01, where the members differ by 1e-5 nats and the log ratio of one response by 1e-2."""
    rng = generator(7)
    policies = members_of(sigma, 6, rng)
    found = policy_js(logprobs_of(policies, 20_000, rng))
    assert found.shape == (1,)
    assert found[0] == pytest.approx(jensen_shannon(policies), rel=0.03)


def test_js_of_members_that_share_nothing_is_the_ceiling():
    logprobs = np.full((4, 4, 1, 2), -300.0)
    logprobs[range(4), range(4)] = -1.0
    assert policy_js(logprobs)[0] == pytest.approx(math.log(4))


def test_js_of_equal_members_is_zero_and_rescaling_is_that_of_lemma_1():
    assert policy_js(np.full((3, 3, 2, 5), -2.5)) == pytest.approx([0, 0])
    assert rescaled(predicted_js(0.1, 8, 5.0), 8, 32) == pytest.approx(predicted_js(0.1, 32, 5.0))


def test_js_of_success_is_corrected_for_few_samples():
    """Equal members: the plug-in shows diversity that is not there, its expectation is (N - 1) / (2 N M) to leading order."""
    right = generator(3).binomial(50, 0.4, size=(8, 3000))
    plain, corrected = success_js_estimates(right, 50)
    assert plain.mean() == pytest.approx(7 / (2 * 8 * 50), rel=0.05)
    assert abs(corrected.mean()) < 0.05 * plain.mean()


def test_js_of_success_where_all_agree_is_left_alone():
    plain, corrected = success_js_estimates(np.array([[0, 4, 4], [0, 4, 0]]), 4)
    assert plain == pytest.approx([0, 0, math.log(2)])
    assert corrected == pytest.approx([0, 0, math.log(2) + 1 / 16])


def test_pairing_of_a_line_and_of_noise():
    """X = 3 + g eps: the mirrored value is its opposite, kappa 4; noise of its own: kappa 2; a shared one: kappa 0."""
    g = generator(1).normal(size=20_000)
    line = pairing(3 + g, np.full_like(g, 3.0), 3 - g)
    assert (line.pair_correlation, line.kappa_pair, line.kappa_base) == (pytest.approx(-1), pytest.approx(4), pytest.approx(1))
    assert math.isnan(line.base_correlation)
    own = pairing(g, g[::-1], np.roll(g, 1))
    assert own.kappa_pair == pytest.approx(2, rel=0.05)
    assert pairing(g, g, g).kappa_pair == 0


def test_slope():
    assert log_log_slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert math.isnan(log_log_slope([1, 2], [1, 0]))
