"""Diversity and Fisher information from sampled responses and their log-probabilities, with their biases taken out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from es_mpi.analysis.theory import success_js

Array = NDArray[np.float64]


def policy_js(logprobs: Array) -> Array:
    """JS of the members' policies on each prompt, [prompts], in nats; unbiased for these members.

    `logprobs` [author, scorer, prompt, sample] has the log-probability under member `scorer` of a response that member `author`
    drew. All responses together are a sample of pibar, so the mean over them of (1/N) sum_j w_j log w_j, w_j = pi_j / pibar, is
    JS. That term lies between 0 and log N for every response, and is far less noisy than log(pi_author / pibar), whose mean over
    responses is the same, where members are close.
    """
    logs = logprobs - logprobs.max(axis=1, keepdims=True)
    logs = logs - np.log(np.mean(np.exp(logs), axis=1, keepdims=True))
    return np.asarray(np.mean(np.exp(logs) * logs, axis=(0, 1, 3)))


def rescaled(js: float, measured: int, members: int) -> float:
    """What a population of `members` would show where `measured` ones show `js`, where Lemma 1 holds."""
    return js * (1 - 1 / members) / (1 - 1 / measured)


def success_js_estimates(right: NDArray[np.int64], samples: int) -> tuple[Array, Array]:
    """Plug-in and corrected JS of success on each prompt, [prompts] each, from the right responses [member, prompt] of `samples`.

    The plug-in is positive for equal members. Miller and Madow's correction adds (outcomes seen - 1) / 2n to each entropy:
    where all members have both outcomes that is -(N - 1) / (2 N M) in all.
    """
    members = len(right)
    plain = np.array([success_js(column / samples) for column in right.T])
    both = (right > 0) & (right < samples)
    pooled = (right.sum(axis=0) > 0) & (right.sum(axis=0) < members * samples)
    return plain, plain + pooled / (2 * members * samples) - both.mean(axis=0) / (2 * samples)


@dataclass(frozen=True, slots=True)
class Trace:
    """tr I and its standard error: that over directions and that over responses, as if apart."""

    value: float
    error: float


def fisher_trace(plus: Array, minus: Array, sigma: float) -> Trace:
    """tr I, averaged over prompts, by central differences along normal directions: E ((log pi+ - log pi-) / 2 sigma)^2.

    `plus` and `minus` [direction, prompt, sample] are log-probabilities of theta's own responses under theta +- sigma eps. Even
    terms cancel; unbiased up to O(sigma^2).
    """
    slopes = ((plus - minus) / (2 * sigma)).reshape(len(plus), -1) ** 2
    errors = [slopes.mean(axis=axis).std(ddof=1) / np.sqrt(slopes.shape[1 - axis]) for axis in (0, 1)]
    return Trace(float(slopes.mean()), float(np.hypot(*errors)))


@dataclass(frozen=True, slots=True)
class Pairing:
    """One target over draws of a direction and a batch: what the unperturbed value and the mirrored one have to do with it.

    `kappa_base` and `kappa_pair` are variances of X+ - X0 and X+ - X- over that of X+: subtracting helps below 1 (arXiv
    2608.27351, table 13). NaN where nothing varies.
    """

    base_correlation: float
    kappa_base: float
    pair_correlation: float
    kappa_pair: float


def pairing(plus: Array, zero: Array, minus: Array) -> Pairing:
    """Of a target at theta + sigma eps, theta and theta - sigma eps, [draws] each."""
    variance = plus.var()
    base, pair = ((plus - other).var() / variance if variance > 0 else np.nan for other in (zero, minus))
    return Pairing(_correlation(plus, zero), float(base), _correlation(plus, minus), float(pair))


def _correlation(x: Array, y: Array) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else np.nan
