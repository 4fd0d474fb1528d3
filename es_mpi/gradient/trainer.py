"""The trained model of one rank: transformers' modules over the fp32 master weights, one flat gradient, AdamW.

On a CPU the parameters are views of the master, so an optimiser step changes the master itself and nothing is copied; on a GPU
they are copies that are written back after every step.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from es_mpi.comm.torch_group import TorchGroup
from es_mpi.errors import EngineError
from es_mpi.params.layout import Layout
from es_mpi.params.store import MasterStore

OPTIMISER = "optimiser.pt"


@dataclass(frozen=True, slots=True)
class AdamW:
    """`lr` has the unit of a weight; `max_norm` bounds the L2 norm of the gradient."""

    lr: float
    beta1: float
    beta2: float
    weight_decay: float
    max_norm: float


class Trainer:
    """`model` computes with `compute` (bfloat16 or float32) from fp32 weights. The same steps on every rank keep them equal."""

    def __init__(self, store: MasterStore, settings: AdamW, compute: str, group: TorchGroup, device: str) -> None:
        self.store, self.settings, self.group, self.device = store, settings, group, device
        self.model = load_module(store.layout, store.master, device)
        self.compute = compute
        self.gradient = torch.zeros(store.layout.elements, device=device)
        parameters = dict(self.model.named_parameters())
        self._trained = {spec.name: parameters[spec.name] for spec in store.layout.tensors if spec.trained}
        for name, parameter in parameters.items():
            spec = store.layout[name]
            parameter.requires_grad_(spec.trained)
            if spec.trained:
                parameter.grad = self.gradient[spec.offset : spec.offset + spec.size].view(spec.shape)
        self.optimiser = torch.optim.AdamW(
            self._trained.values(), lr=settings.lr, betas=(settings.beta1, settings.beta2), weight_decay=settings.weight_decay,
            fused=True,
        )  # fmt: skip

    def computing(self) -> AbstractContextManager[Any]:
        """Where forward passes run."""
        if self.compute == "float32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def step(self) -> float:
        """Sum the gradients of all ranks, clip, and apply one AdamW step; the gradient is zero afterwards.

        Returns the norm before clipping, the same on every rank. If it is not finite nothing is applied, on no rank.
        """
        self.group.sum_in_place(self.gradient)
        norm = float(self.gradient.norm())
        if math.isfinite(norm):
            self.gradient.mul_(min(1.0, self.settings.max_norm / (norm + 1e-6)))
            self.optimiser.step()
            self._write_back()
        self.gradient.zero_()
        return norm

    def save(self, folder: Path) -> None:
        torch.save(self.optimiser.state_dict(), folder / OPTIMISER)

    def load(self, folder: Path) -> None:
        self.optimiser.load_state_dict(torch.load(folder / OPTIMISER, map_location=self.device, weights_only=True))

    def _write_back(self) -> None:
        if self.device != "cpu":
            for name, parameter in self._trained.items():
                spec = self.store.layout[name]
                self.store.master[spec.offset : spec.offset + spec.size] = parameter.detach().cpu().numpy().ravel()


def load_module(layout: Layout, weights: NDArray[np.float32], device: str) -> Any:
    """transformers' model of `layout` with its parameters taken from `weights` [elements]: views on a CPU, copies elsewhere.

    Dropout is off: the policy that is trained must be the one that sampled. Raises EngineError where transformers has parameters
    that the checkpoint lacks, or lacks some.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(layout.folder, dtype=torch.float32)
    parameters = dict(model.named_parameters())
    different = parameters.keys() ^ {spec.name for spec in layout.tensors}
    if different:
        raise EngineError(f"transformers and the checkpoint name different parameters: {sorted(different)[:4]}")
    set_weights(model, layout, weights, device)
    return model.to(device).eval()


def set_weights(model: Any, layout: Layout, weights: NDArray[np.float32], device: str) -> None:
    """Make `weights` [elements] the parameters of `model`: views on a CPU, copies elsewhere."""
    parameters = dict(model.named_parameters())
    for spec in layout.tensors:
        flat = torch.from_numpy(weights[spec.offset : spec.offset + spec.size])
        parameters[spec.name].data = flat.view(spec.shape).to(device)
