"""Advantages, loss and gradient beside those of the field's common trainer (TRL's GRPOTrainer) on its own rollouts.

It draws and rewards responses with the tiny model; then its weights are moved, so that ratios, clipping and KL are not trivial.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from es_mpi.config.schema import GrpoPhase
from es_mpi.gradient.advantage import advantages
from es_mpi.gradient.losses import Totals, token_weights
from es_mpi.gradient.objective import PolicyBatch, policy_objective
from es_mpi.gradient.rows import evaluate_policy, pack

GROUP, PROMPTS, LONGEST, BETA = 4, 4, 8, 0.05
TEMPERATURE = 0.9
AGGREGATIONS = {"grpo": "seq-mean-token-mean", "dapo": "token-mean", "dr_grpo": "seq-mean-token-sum-norm"}


def reward(completions: list[str], **_: Any) -> list[float]:
    return [(len(text) * 7 % 5) / 4 for text in completions]


def their_trainer(tiny_dir: Path, out: Path, loss_type: str) -> Any:
    trl = pytest.importorskip("trl", reason="the common trainer is not installed")
    datasets = pytest.importorskip("datasets")
    from transformers import AutoTokenizer

    torch.manual_seed(5)
    settings = trl.GRPOConfig(
        output_dir=str(out), use_cpu=True, bf16=False, report_to="none", loss_type=loss_type, beta=BETA,
        epsilon=0.1, epsilon_high=0.15,
        num_generations=GROUP, per_device_train_batch_size=GROUP * PROMPTS, num_iterations=2, max_completion_length=LONGEST,
        temperature=TEMPERATURE, top_p=1.0, top_k=0, scale_rewards="none" if loss_type == "dr_grpo" else "group", seed=5,
        model_init_kwargs={"dtype": "float32"}, gradient_checkpointing=False,
        use_bias_correction_kl=False,  # the weight pi / pi_old of its KL loss, which the published losses do not have
    )  # fmt: skip
    data = datasets.Dataset.from_list([{"prompt": f"{a}+{a + b}="} for a in range(3, 7) for b in (1, 20, 100, 30)])
    tokenizer = AutoTokenizer.from_pretrained(tiny_dir, padding_side="left")
    return trl.GRPOTrainer(
        model=str(tiny_dir), reward_funcs=reward, args=settings, train_dataset=data, processing_class=tokenizer
    )  # fmt: skip


def their_rollout(trainer: Any) -> dict[str, Any]:
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    prompts = [trainer.train_dataset[i] for i in range(PROMPTS) for _ in range(GROUP)]
    return trainer._generate_and_score_completions(prompts)


def our_batch(inputs: dict[str, Any], phase: GrpoPhase, values: torch.Tensor) -> PolicyBatch:
    def unpadded(kind: str) -> list[list[int]]:
        ids, mask = inputs[f"{kind}_ids"], inputs[f"{kind}_mask"]
        return [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]

    rows = pack(unpadded("prompt"), unpadded("completion"), "cpu")
    totals = Totals(GROUP * PROMPTS, int(rows.mask.sum()))
    weights = token_weights(rows.mask, phase.aggregation, totals, max_tokens=LONGEST)
    old, ref = inputs["old_per_token_logps"], inputs["ref_per_token_logps"]
    return PolicyBatch(rows=rows, engine=old, old=old, ref=ref, advantages=values, weights=weights, pushed=weights)


@pytest.mark.parametrize("loss_type", AGGREGATIONS)
def test_loss_and_gradient_are_the_common_trainers(tiny_dir: Path, tmp_path: Path, loss_type: str) -> None:
    trainer = their_trainer(tiny_dir, tmp_path, loss_type)
    inputs = their_rollout(trainer)
    phase = GrpoPhase(
        kind="grpo", updates=1, group_size=GROUP, clip_low=0.1, clip_high=0.15, beta_ref=BETA, adv_ddof=1, adv_epsilon=1e-4,
        is_cap=None, adv_std=loss_type != "dr_grpo", aggregation=AGGREGATIONS[loss_type],  # type: ignore[arg-type]
    )  # fmt: skip
    tokenizer = trainer.processing_class
    texts = tokenizer.batch_decode(inputs["completion_ids"], skip_special_tokens=True)
    groups = [reward(texts)[i : i + GROUP] for i in range(0, GROUP * PROMPTS, GROUP)]
    ours = [advantages(group, scale_by_std=phase.adv_std, ddof=1, epsilon=1e-4) for group in groups]
    values = torch.tensor([[float(a)] for group in ours for a in group])
    assert values[:, 0] == pytest.approx(inputs["advantages"], rel=1e-5, abs=1e-6)
    assert values.abs().max() > 0.1

    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter += 0.03 * parameter.std() * torch.randn(parameter.shape, generator=generator)
    theirs = trainer._compute_loss(trainer.model, inputs)
    theirs.backward()
    wanted = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
    trainer.model.zero_grad()

    batch = our_batch(inputs, phase, values)
    loss, logged = policy_objective(evaluate_policy(trainer.model, batch.rows, TEMPERATURE), batch, phase)
    loss.backward()
    assert logged["clip_frac"] > 0.0 and logged["kl"] > 0.0
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-6, abs=1e-7)
    difference = sum(float((p.grad - wanted[name]).square().sum()) for name, p in trainer.model.named_parameters()) ** 0.5
    norm = sum(float(gradient.square().sum()) for gradient in wanted.values()) ** 0.5
    assert difference < 1e-5 * norm
