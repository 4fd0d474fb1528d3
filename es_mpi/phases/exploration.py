"""What ED-GRPO and ED-iDPO share beside their losses: the pause that a cap on KL(pi_prev || pi) imposes, and curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from es_mpi.comm.agree import sum_tallies
from es_mpi.comm.port import Comm
from es_mpi.config.schema import ExplorationConfig
from es_mpi.gradient.edo import without_end
from es_mpi.gradient.rows import Rows
from es_mpi.params.layout import end_ids

SUMS = ("kl_prev", "trained_tokens")


@dataclass
class Exploration:
    """Whether the term acts, on every rank alike: until KL(pi_prev || pi) a token exceeds the cap, anew in each iteration."""

    comm: Comm
    settings: ExplorationConfig
    folder: Path  # of the model
    paused: bool = False

    def measure(self, what: str, logged: Mapping[str, float]) -> float:
        """KL(pi_prev || pi) a token (nats) over all ranks, from what each has logged of an optimiser step; may pause the term."""
        sums = sum_tallies(self.comm, {name: logged.get(name, 0.0) for name in SUMS})
        distance = sums["kl_prev"] / max(sums["trained_tokens"], 1.0)
        self.paused = self.paused or (self.settings.kl_cap is not None and distance > self.settings.kl_cap)
        return distance

    def pushable(self, rows: Rows) -> torch.Tensor:
        """The tokens [B, R] that the term may push: 1.0 or 0.0."""
        if not self.settings.mask_end:
            return rows.mask
        return without_end(rows.mask, rows.targets, torch.tensor(end_ids(self.folder), device=rows.mask.device))

    def tags(self, totals: Mapping[str, float]) -> dict[str, float]:
        tokens = max(totals.get("trained_tokens", 0.0), 1.0)
        return {
            "edo/kl_prev": totals.get("kl_prev", 0.0) / tokens, "edo/term": totals.get("term", 0.0),
            "edo/gated": totals.get("gated", 0.0) / tokens, "edo/paused": float(self.paused),
        }  # fmt: skip
