"""The objectives that phases minimise, put together from their parts: values and gradients worked out apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from es_mpi.config.schema import EdGrpoPhase, EdIdpoPhase, ExplorationConfig, IdpoPhase, TokenExplorationConfig
from es_mpi.gradient.advantage import advantages
from es_mpi.gradient.losses import Totals, token_weights
from es_mpi.gradient.objective import PolicyBatch, exploration, policy_objective
from es_mpi.gradient.preference import PairBatch, preference_objective
from es_mpi.gradient.rows import Policy, Rows

EXACT = 1e-9


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


LOGP = f64([[-0.5, -1, 0], [-1.5, -0.2, -2]])
OLD = f64([[-0.7, -0.9, 0], [-1.4, -0.3, -2.5]])
PREV = f64([[-0.6, -1.2, 0], [-1.2, -0.4, -2.2]])
REF = f64([[-0.6, -1.1, 0], [-1.5, -0.25, -2.1]])
MASK = f64([[1, 1, 0], [1, 1, 1]])


def policy(logp: Tensor, log_probs: Tensor | None = None) -> Policy:
    return Policy(logp, torch.zeros_like(logp), logp[..., None] if log_probs is None else log_probs)


def rows(mask: Tensor) -> Rows:
    nothing = torch.zeros_like(mask, dtype=torch.long)
    return Rows(nothing, nothing, nothing, nothing, mask)


def ed_grpo(aggregation: str, estimator: str, gate: float | None, old: Tensor) -> tuple[Tensor, Any, PolicyBatch]:
    """L without the exploration term, what it logs, and a batch for that term, drawn from `old`."""
    edo = TokenExplorationConfig(estimator=estimator, gate=gate)  # type: ignore[arg-type]
    phase = EdGrpoPhase(kind="ed_grpo", updates=1, kappa=0.01, aggregation=aggregation, is_cap=None, edo=edo)  # type: ignore[arg-type]
    weights = token_weights(MASK, phase.aggregation, Totals(2, 5), max_tokens=4)
    values = torch.from_numpy(advantages([1.0, 0.0], epsilon=0.0))[:, None]
    batch = PolicyBatch(
        rows=rows(MASK), engine=LOGP, old=OLD, ref=REF, advantages=values, weights=weights, pushed=weights
    )  # fmt: skip
    loss, _ = policy_objective(policy(LOGP), batch, phase)
    drawn = PolicyBatch(rows=rows(MASK), engine=LOGP, old=old, ref=None, advantages=values, weights=weights, pushed=weights)
    return loss, phase, drawn


# aggregation, then the total with k1, k3, k1 gated at .2 (tokens of pi_prev), k1 and k3 (tokens of pi_old)
TABLE = """
seq-mean-token-mean     .084499009809 .083376536057 .084999009809 .084369909012 .083364897046
token-mean              .311581586091 .310561191264 .312181586091 .311467984398 .310542221077
seq-mean-token-sum-norm .194738491307 .194100744540 .195113491307 .194667490249 .194088888173
"""
TERMS = [("k1", None, PREV), ("k3", None, PREV), ("k1", 0.2, PREV), ("k1", None, OLD), ("k3", None, OLD)]


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_ed_grpo(row: str) -> None:
    aggregation, *totals = row.split()
    for (estimator, gate, old), total in zip(TERMS, map(float, totals), strict=True):
        loss, phase, drawn = ed_grpo(aggregation, estimator, gate, old)
        term, logged = exploration(policy(LOGP), policy(PREV), drawn, phase)
        assert (loss - phase.kappa * term).item() == pytest.approx(total, abs=EXACT)
        assert logged["kl_prev"].item() > 0
        assert float(logged["gated"]) == (1.0 if gate else 0.0)


def test_ed_grpo_over_the_whole_vocabulary() -> None:
    prev, now = f64([[[0.7, 0.2, 0.1]]]).log(), f64([[[0.5, 0.3, 0.2]]]).log().requires_grad_()
    edo = TokenExplorationConfig(estimator="full", gate=None)
    phase = EdGrpoPhase(kind="ed_grpo", updates=1, edo=edo)
    one = torch.ones(1, 1, dtype=torch.float64)
    batch = PolicyBatch(rows=rows(one), engine=one, old=None, ref=None, advantages=one, weights=one, pushed=one)
    log_probs = now.log_softmax(-1)
    term, logged = exploration(policy(log_probs[..., 0], log_probs), policy(prev[..., 0], prev), batch, phase)
    assert term.item() == logged["kl_prev"].item() == pytest.approx(0.0851228259572, abs=EXACT)
    assert torch.autograd.grad(term, now)[0] == pytest.approx(f64([[[-0.2, 0.1, 0.1]]]), abs=EXACT)


def pair_batch(start: Tensor, mask: Tensor, candidates: float = 1 / 3, **changes: Any) -> PairBatch:
    """Three candidates, of which the first won and the second lost."""
    facts = {"rows": rows(mask), "engine": start, "old": start, "ref": None, "pushed": mask, "pair_weight": 1.0}
    weights = torch.full((3,), candidates, dtype=torch.float64)
    return PairBatch(**{**facts, "winners": torch.tensor([0]), "losers": torch.tensor([1]), "candidates": weights, **changes})


def test_ed_idpo_over_all_candidates() -> None:
    """Five tokens each, of which the sums are (-10, -12, -9) against (-10.5, -11.7, -9.1)."""
    mask = torch.ones(3, 5, dtype=torch.float64)
    start = f64([[-2.1] * 5, [-2.34] * 5, [-1.82] * 5])
    logp = f64([[-2.0] * 5, [-2.4] * 5, [-1.8] * 5]).requires_grad_()
    phase = EdIdpoPhase(kind="ed_idpo", updates=1, alpha=0.01, beta=0.1, nll=0.0)
    loss, logged = preference_objective(policy(logp), pair_batch(start, mask), phase, True)
    assert loss.item() == pytest.approx(0.654046967318, abs=EXACT)
    assert logged["term"].item() == pytest.approx(-0.01, abs=EXACT)
    assert logged["margin"].item() == pytest.approx(0.08, abs=EXACT) and logged["accuracy"].item() == 1.0
    assert logged["logp_chosen"].item() == pytest.approx(0.5, abs=EXACT)
    unpaired = torch.autograd.grad(loss, logp)[0][2]
    assert unpaired == pytest.approx(f64([0.01 * 0.1 / 3] * 5), abs=EXACT)
    with_nll = EdIdpoPhase(kind="ed_idpo", updates=1, alpha=0.01, beta=0.1, nll=1.0)
    assert preference_objective(policy(logp), pair_batch(start, mask), with_nll, True)[0].item() == pytest.approx(
        2.654046967318, abs=EXACT
    )
    plain = IdpoPhase(kind="idpo", updates=1, beta=0.1, nll=0.0)
    for settings, explores in ((plain, True), (phase, False)):
        found, _ = preference_objective(policy(logp), pair_batch(start, mask), settings, explores)
        assert found.item() == pytest.approx(0.653946967318, abs=EXACT)


def test_the_gate_of_ed_idpo_looks_at_tokens_and_padding_is_never_looked_at() -> None:
    mask = f64([[1, 1], [1, 1], [1, 0]])
    start = f64([[-1.0, -1.0], [-1.0, -1.0], [-1.0, float("nan")]])
    logp = f64([[-0.9, -1.5], [-1.0, -1.0], [-0.8, float("nan")]])
    phase = EdIdpoPhase(kind="ed_idpo", updates=1, alpha=1.0, beta=0.1, edo=ExplorationConfig(gate=0.2))
    loss, logged = preference_objective(policy(logp), pair_batch(start, mask), phase, True)
    assert logged["term"].item() == pytest.approx(-0.1 / 3 * (0.1 + 0.2), abs=EXACT)  # the token at -1.5 is held back
    assert logged["gated"].item() == 1.0 and torch.isfinite(loss)


def test_another_reference_is_that_of_dpo_but_distance_is_from_the_start() -> None:
    mask = torch.ones(3, 1, dtype=torch.float64)
    start, logp, ref = f64([[-1.0], [-2.0], [-3.0]]), f64([[-1.0], [-2.0], [-3.0]]), f64([[-1.5], [-1.7], [-3.0]])
    phase = IdpoPhase(kind="idpo", updates=1, beta=0.1, nll=0.0, ref="base")
    loss, logged = preference_objective(policy(logp), pair_batch(start, mask, ref=ref), phase, False)
    assert loss.item() == pytest.approx(0.653946967318, abs=EXACT)
    assert logged["kl_prev"].item() == 0.0
