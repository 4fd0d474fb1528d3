"""The trainer of a small random Llama: its log-probabilities, and the same gradient and step on 1, 2 and 3 ranks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from thread_comm import run_threads

from es_mpi.comm.port import Comm
from es_mpi.comm.single import SingleComm
from es_mpi.comm.torch_group import TorchGroup
from es_mpi.config.schema import GrpoPhase
from es_mpi.gradient.losses import Totals, token_weights
from es_mpi.gradient.objective import PolicyBatch, policy_objective
from es_mpi.gradient.rows import evaluate_policy, pack
from es_mpi.gradient.trainer import AdamW, Trainer, load_module
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore

PROMPTS = [(1, 2, 3), (4, 5), (6, 7, 8, 9, 10), (11,), (12, 13, 14), (15, 16)]
RESPONSES = [(21, 22), (23, 24, 25, 26, 27, 28), (29,), (30, 31, 32), (33, 34, 35, 36), (37, 38, 39, 40, 41)]
ADVANTAGES = [1.0, -1.0, 0.5, -0.5, 1.5, -1.5]
ADAM = AdamW(lr=1e-2, beta1=0.9, beta2=0.999, weight_decay=0.0, max_norm=1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    out = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    model.save_pretrained(out)
    return out


def trainer(folder: Path, *exclude: str) -> Trainer:
    """A trainer that is alone in its group."""
    return Trainer(MasterStore(read_layout(folder, exclude=exclude)), ADAM, "float32", TorchGroup(SingleComm(10), "cpu"), "cpu")


def accumulate(trainer: Trainer, places: range, aggregation: str, size: int = 2) -> None:
    """The gradient of the responses at `places`, in micro-batches of `size`."""
    phase = GrpoPhase(kind="grpo", updates=1, aggregation=aggregation, beta_ref=0.0)  # type: ignore[arg-type]
    totals = Totals(len(RESPONSES), sum(map(len, RESPONSES)))
    for chunk in (list(places)[i : i + size] for i in range(0, len(places), size)):
        rows = pack([PROMPTS[i] for i in chunk], [RESPONSES[i] for i in chunk], "cpu")
        policy = evaluate_policy(trainer.model, rows, 1.0)
        weights = token_weights(rows.mask, phase.aggregation, totals, max_tokens=8)
        batch = PolicyBatch(
            rows=rows, engine=policy.logp.detach() - 0.1, old=None, ref=None, weights=weights, pushed=weights,
            advantages=torch.tensor([[ADVANTAGES[i]] for i in chunk]),
        )  # fmt: skip
        policy_objective(policy, batch, phase)[0].backward()


def test_log_probs_are_those_of_each_sequence_alone(folder: Path) -> None:
    layout = read_layout(folder)
    model = load_module(layout, MasterStore(layout).master, "cpu")
    rows = pack(PROMPTS, RESPONSES, "cpu")
    with torch.no_grad():
        logp, entropy, _ = evaluate_policy(model, rows, 0.7)
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            logits = model(torch.tensor([[*prompt, *response]])).logits[0] / 0.7
            whole = logits.log_softmax(-1)[len(prompt) - 1 : -1]
            expected = [whole[t, token].item() for t, token in enumerate(response)]
            assert logp[row, : len(response)].tolist() == pytest.approx(expected, abs=2e-6)
            assert entropy[row, 0].item() == pytest.approx(
                torch.distributions.Categorical(logits=logits[len(prompt) - 1]).entropy().item()
            )
    assert rows.mask.sum(dim=1).tolist() == [len(response) for response in RESPONSES]


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean", "seq-mean-token-sum-norm"])
def test_the_gradient_is_the_same_on_any_number_of_ranks(folder: Path, aggregation: str) -> None:
    trainers = [trainer(folder) for _ in range(6)]  # not in the threads: transformers patches modules while it loads

    def program(comm: Comm) -> tuple[np.ndarray, float, str]:
        comm.hosts = ["here"] * comm.size
        mine = trainers[comm.rank + {1: 0, 2: 1, 3: 3}[comm.size]]
        mine.group = TorchGroup(comm, "cpu")
        accumulate(mine, range(comm.rank, len(PROMPTS), comm.size), aggregation)
        local = mine.gradient.clone()
        mine.group.sum_in_place(local)
        norm = mine.step()
        comm.barrier("stepped")
        mine.group.close()
        return local.numpy(), norm, mine.store.digest()

    (whole, norm, _), *_ = run_threads(1, program)
    assert norm > 0.01
    for size in (2, 3):
        found = run_threads(size, program)
        assert not [result for result in found if isinstance(result, BaseException)], found
        assert len({digest for *_, digest in found}) == 1, "ranks end with different weights"
        for gradient, other, _ in found:
            assert np.linalg.norm(gradient - whole) < 1e-6 * np.linalg.norm(whole)
            assert other == pytest.approx(norm, rel=1e-6)


def test_a_step_moves_the_master_and_only_what_is_trained(folder: Path) -> None:
    one = trainer(folder, "model.embed_tokens.*")
    store, before = one.store, one.store.master.copy()
    accumulate(one, range(len(PROMPTS)), "token-mean")
    one.step()
    for spec in store.layout.tensors:
        part = slice(spec.offset, spec.offset + spec.size)
        assert np.array_equal(before[part], store.master[part]) != spec.trained, spec.name
    assert not one.gradient.any()


def test_clipping_bounds_the_gradient_and_a_bad_one_moves_nothing(folder: Path) -> None:
    one = trainer(folder)
    digest = one.store.digest()
    one.gradient[5] = math.nan
    assert math.isnan(one.step())
    assert one.store.digest() == digest
    assert not one.gradient.any()
    one.gradient[:] = 3.0
    norm = one.step()
    assert norm == pytest.approx(3.0 * math.sqrt(len(one.gradient)), rel=1e-4)
    assert one.store.digest() != digest


def test_the_optimiser_is_restored_exactly(folder: Path, tmp_path: Path) -> None:
    straight, stopped = trainer(folder), trainer(folder)
    for one in (straight, stopped):
        accumulate(one, range(3), "token-mean")
        one.step()
    stopped.save(tmp_path)
    resumed = trainer(folder)
    resumed.store.master[:] = stopped.store.master
    resumed.load(tmp_path)
    for one in (straight, resumed):
        accumulate(one, range(3, 6), "token-mean")
        one.step()
    assert straight.store.digest() == resumed.store.digest()
