"""What a method may ask of an inference engine. The engine owns the rank's master weights, so only a member's seed and
sigma, or the terms of an update, ever reach it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from es_mpi.params.store import MasterStore
from es_mpi.types import Completion, Member, Prompt, Sampling


class Engine(Protocol):
    store: MasterStore
    version: int
    notes: Sequence[str]  # what the user should know of this engine on this machine

    def load(self, member: Member | None, sigma: float = 0.0) -> int:
        """Make the working copy RNE(theta + sign * sigma * eps(seed)), or RNE(theta) for None; drop every cache.

        Returns the new version: it changes with every load. Raises EngineError when a write did not arrive.
        """
        ...

    def drop_caches(self) -> None:
        """Forget what was computed from earlier prompts. `load` does it by itself."""
        ...

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        """One response to each prompt, in order. `seeds` (one each, 63-bit) decide sampled tokens; greedy ignores them."""
        ...

    def logprobs(self, prompts: Sequence[Prompt], responses: Sequence[Sequence[int]]) -> list[tuple[float, ...]]:
        """Log-probability of each token of given responses, one to each prompt, at temperature 1 over the whole vocabulary.

        For analyses; a prompt and its response must leave room for one more token.
        """
        ...

    def close(self) -> None: ...
