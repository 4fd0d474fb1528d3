"""The whole GRPO and ED-GRPO objective on two responses of lengths 2 and 3, values and gradients worked out apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from es_mpi.gradient.advantage import advantages
from es_mpi.gradient.edo import EdoEstimator, full_repulsion, repulsion, sequence_exploration, without_end
from es_mpi.gradient.losses import Aggregation, Totals, kl, policy_loss, token_weights, weighted_sum

EXACT = 1e-9
TOKEN: Aggregation = "token-mean"


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


LOGP = f64([[-0.5, -1, 0], [-1.5, -0.2, -2]])
OLD = f64([[-0.7, -0.9, 0], [-1.4, -0.3, -2.5]])
PREV = f64([[-0.6, -1.2, 0], [-1.2, -0.4, -2.2]])
REF = f64([[-0.6, -1.1, 0], [-1.5, -0.25, -2.1]])
MASK = f64([[1, 1, 0], [1, 1, 1]])
KAPPA, BETA_REF = 0.01, 0.001


def parts(
    logp: Tensor, ddof: int, aggregation: Aggregation, estimator: EdoEstimator, gate: float | None, weighted: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """L_pg, k3 to the reference and K_edo."""
    weights = token_weights(MASK, aggregation, Totals(2, 5), max_tokens=4)
    a = torch.from_numpy(advantages([1.0, 0.0], ddof=ddof, epsilon=0.0))[:, None]
    values = (
        policy_loss(logp, OLD, a, clip_low=0.2, clip_high=0.2),
        kl(logp, REF, "k3"),
        repulsion(logp, PREV, estimator, gate=gate, logp_old=OLD if weighted else None),
    )
    pg, ref, edo = (weighted_sum(value, weights) for value in values)
    return pg, ref, edo


TERMS: list[tuple[EdoEstimator, float | None, bool]] = [
    ("k1", None, False), ("k3", None, False), ("k1", 0.2, False), ("k1", None, True), ("k3", None, True),
]  # fmt: skip


# ddof, aggregation, L_pg, k3 to the reference, then the total for each of TERMS
TABLE = """
0 seq-mean-token-mean     .083578913293 .003429849441 .084499009809 .083376536057 .084999009809 .084369909012 .083364897046
0 token-mean              .310778437755 .003148335722 .311581586091 .310561191264 .312181586091 .311467984398 .310542221077
0 seq-mean-token-sum-norm .194236523597 .001967709826 .194738491307 .194100744540 .195113491307 .194667490249 .194088888173
1 seq-mean-token-mean     .059099216354 .003429849441 .060019312870 .058896839118 .060519312870 .059890212072 .058885200107
1 token-mean              .219753540783 .003148335722 .220556689119 .219536294292 .221156689119 .220443087426 .219517324105
1 seq-mean-token-sum-norm .137345962990 .001967709826 .137847930699 .137210183933 .138222930699 .137776929641 .137198327566
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_values(row: str) -> None:
    ddof, aggregation, *numbers = row.split()
    pg, ref, *totals = map(float, numbers)
    for (estimator, gate, weighted), total in zip(TERMS, totals, strict=True):
        found = parts(LOGP, int(ddof), aggregation, estimator, gate, weighted)  # type: ignore[arg-type]
        assert found[0].item() == pytest.approx(pg, abs=EXACT)
        assert found[1].item() == pytest.approx(ref, abs=EXACT)
        assert (found[0] + BETA_REF * found[1] - KAPPA * found[2]).item() == pytest.approx(total, abs=EXACT)


def test_the_exploration_term_alone() -> None:
    assert parts(LOGP, 0, TOKEN, "k1", None, False)[2].item() == pytest.approx(-0.08, abs=EXACT)
    assert parts(LOGP, 0, TOKEN, "k3", None, False)[2].item() == pytest.approx(0.022039482648, abs=EXACT)


PG_ONLY = [[0, -0.180967484, 0], [0.180967484, 0.221034184, 0.329744254]]
K1 = [[0.002019033, -0.178948451, 0], [0.182967484, 0.223043938, 0.331763287]]
K3 = [[-0.000191309, -0.181391257, 0], [0.181485847, 0.220601132, 0.329320481]]
K1_GATE = [[0.002019033, -0.178948451, 0], [0.180967484, 0.223043938, 0.331763287]]


@pytest.mark.parametrize(
    ("estimator", "gate", "expected"), [("k1", None, K1), ("k3", None, K3), ("k1", 0.2, K1_GATE)], ids=["k1", "k3", "k1 gate"]
)
def test_gradients(estimator: EdoEstimator, gate: float | None, expected: list[list[float]]) -> None:
    logp = LOGP.clone().requires_grad_()
    pg, ref, edo = parts(logp, 0, TOKEN, estimator, gate, False)
    assert torch.autograd.grad(pg, logp, retain_graph=True)[0] == pytest.approx(f64(PG_ONLY), abs=EXACT)
    found = torch.autograd.grad(pg + BETA_REF * ref - KAPPA * edo, logp)[0]
    assert found == pytest.approx(f64(expected), abs=EXACT)


def test_two_tokens_each() -> None:
    logp, old = f64([[0.5, 0.4], [0.3, 0.2]]).log(), f64([[0.4, 0.5], [0.25, 0.25]]).log()
    ref, a = f64([[0.45, 0.4], [0.3, 0.25]]).log(), f64([[1.0], [-1.0]])
    pg = policy_loss(logp, old, a, clip_low=0.2, clip_high=0.2)
    assert pg == pytest.approx(f64([[-1.2, -0.8], [1.2, 0.8]]), abs=EXACT)
    k1, k3, k3_ref = repulsion(logp, old, "k1").mean(), repulsion(logp, old, "k3").mean(), kl(logp, ref, "k3").mean()
    assert k1.item() == pytest.approx(0.010205498630, abs=EXACT)
    assert k3.item() == pytest.approx(0.022705498630, abs=EXACT)
    assert k3_ref.item() == pytest.approx(0.008054241086, abs=EXACT)
    assert (pg.mean() + BETA_REF * k3_ref - KAPPA * k1).item() == pytest.approx(-9.400074521e-5, abs=EXACT)
    assert (pg.mean() + BETA_REF * k3_ref - KAPPA * k3).item() == pytest.approx(-2.190007452e-4, abs=EXACT)


@pytest.mark.parametrize(
    ("q", "k1", "k3"),
    [(1.25, -0.223143551, 0.026856449), (0.8, 0.223143551, 0.023143551), (0.5, 0.693147181, 0.193147181)],
)
def test_repulsion_of_one_token(q: float, k1: float, k3: float) -> None:
    logp, prev = f64([q]).log(), f64([0.0])
    assert repulsion(logp, prev, "k1").item() == pytest.approx(k1, abs=EXACT)
    assert repulsion(logp, prev, "k3").item() == pytest.approx(k3, abs=EXACT)


def test_exact_terms_have_no_gradient_at_the_previous_policy() -> None:
    logits = f64([[0.3, -0.2, 1.0]]).requires_grad_()
    log_probs = logits.log_softmax(-1)
    prev = log_probs.detach()
    for value in (full_repulsion(log_probs, prev).sum(), repulsion(log_probs, prev, "k3").sum()):
        assert torch.autograd.grad(value, logits, retain_graph=True)[0].norm().item() < 1e-12


def test_full_repulsion() -> None:
    prev, logits = f64([0.7, 0.2, 0.1]).log(), f64([0.5, 0.3, 0.2]).log().requires_grad_()
    value = full_repulsion(logits.log_softmax(-1), prev)
    assert value.item() == pytest.approx(0.0851228259572, abs=EXACT)
    assert torch.autograd.grad(value, logits)[0] == pytest.approx(f64([-0.2, 0.1, 0.1]), abs=EXACT)


def test_the_policy_is_stable_only_below_the_pull_of_the_reference() -> None:
    prev = f64([0.0, 0.5, -0.5]).log_softmax(-1)

    def objective(logits: Tensor, beta: float, kappa: float) -> Tensor:
        log_probs = logits.log_softmax(-1)
        return beta * (log_probs.exp() * (log_probs - prev)).sum() - kappa * full_repulsion(log_probs, prev)

    p = prev.exp()
    fisher = torch.diag(p) - p[:, None] * p
    hessian = torch.func.hessian(objective)(prev, 0.01, 0.001)
    assert hessian == pytest.approx(0.009 * fisher, abs=EXACT)
    assert torch.linalg.eigvalsh(hessian) == pytest.approx(f64([0.0, 0.00199057, 0.00353896]), abs=1e-8)
    assert torch.linalg.eigvalsh(torch.func.hessian(objective)(prev, 0.001, 0.01)).min().item() < -1e-3


def test_tokens_that_end_a_response_are_left_out() -> None:
    mask = without_end(MASK, torch.tensor([[5, 2, 0], [5, 7, 3]]), torch.tensor([2, 3]))
    assert mask.tolist() == [[1, 0, 0], [1, 1, 0]]


def test_a_step_on_the_exploration_term_pushes_its_own_samples_down() -> None:
    logits = f64([0.4, 0.1, -0.3, 0.0]).requires_grad_()
    samples, weights = torch.tensor([0, 0, 1]), f64([1 / 3] * 3)
    ref = logits.detach().log_softmax(-1)[samples]

    def value(x: Tensor) -> Tensor:
        return sequence_exploration(x.log_softmax(-1)[samples] - ref, weights, beta=0.1)

    before = value(logits)
    stepped = logits.detach() - 0.5 * torch.autograd.grad(-0.01 * before, logits)[0]
    assert stepped.log_softmax(-1)[samples].mean() < ref.mean()
    assert value(stepped) > before
