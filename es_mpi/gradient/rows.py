"""Responses as the tensors of one micro-batch, and the log-probabilities of their tokens under a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """B sequences of prompt and response, padded on the right to T; R is the longest response.

    `predicts` [B, R] is the position whose output predicts each response token, `targets` [B, R] that token, `mask` [B, R] 1.0
    where there is one.
    """

    input_ids: Tensor
    attention: Tensor
    predicts: Tensor
    targets: Tensor
    mask: Tensor


def pack(prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], device: str) -> Rows:
    longest = max(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
    shape, width = (len(prompts), longest), max(1, *(len(r) for r in responses))
    input_ids, attention = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    predicts, targets = (torch.zeros(len(prompts), width, dtype=torch.long) for _ in range(2))
    mask = torch.zeros(len(prompts), width)
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        n, m = len(prompt), len(response)
        input_ids[row, : n + m] = torch.tensor([*prompt, *response])
        attention[row, : n + m] = 1
        predicts[row] = (torch.arange(width) + n - 1).clamp(max=longest - 1)
        targets[row, :m] = torch.tensor(response, dtype=torch.long)
        mask[row, :m] = 1.0
    return Rows(*(part.to(device) for part in (input_ids, attention, predicts, targets, mask)))


class Policy(NamedTuple):
    """What a model says of response tokens, in fp32: log pi of each [B, R], the entropy of the distribution it was drawn from
    [B, R] (nats, without gradient), and that distribution's logarithms [B, R, V]. What `Rows.mask` leaves out has no meaning.
    """

    logp: Tensor
    entropy: Tensor
    log_probs: Tensor


def evaluate_policy(model: Any, rows: Rows, temperature: float) -> Policy:
    """pi is the model at `temperature`, over the whole vocabulary."""
    first = int(rows.predicts.min())
    kept = rows.input_ids.shape[1] - first
    logits = model(input_ids=rows.input_ids, attention_mask=rows.attention, use_cache=False, logits_to_keep=kept).logits
    chosen = logits[torch.arange(len(rows.predicts), device=logits.device)[:, None], rows.predicts - first]
    log_probs = (chosen.float() / temperature).log_softmax(dim=-1)
    with torch.no_grad():
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    return Policy(log_probs.gather(-1, rows.targets[..., None]).squeeze(-1), entropy, log_probs)
