"""Transformers as the reference of the engine: the same weights, another implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_mpi.params.store import MasterStore
from es_mpi.types import Member


def reference_logprobs(
    model: Any,
    store: MasterStore,
    sequences: Sequence[Sequence[int]],
    member: Member | None,
    sigma: float,
    *,
    temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Prompt log-probabilities of a transformers `model` after the member's weights were put into it tensor by tensor."""
    import torch

    weights = model.state_dict()
    with torch.no_grad():
        for spec in store.layout.tensors:
            values = np.empty(spec.size, np.float32)
            store.write(spec.name, values, member, sigma)
            weights[spec.name].copy_(torch.from_numpy(values).view(spec.shape))
        logprobs = [(model(torch.tensor([s])).logits[0] / temperature).log_softmax(-1) for s in sequences]
    return np.concatenate([[lp[i, t].item() for i, t in enumerate(s[1:])] for s, lp in zip(sequences, logprobs, strict=True)])
