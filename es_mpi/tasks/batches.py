"""Which prompts an update sees: a pure function of (run seed, update), the same for all members and ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from es_mpi.noise.address import permutation, subkey
from es_mpi.types import Problem, Prompt

SEED_BITS = 63  # engines take signed 64-bit seeds


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts of one update with their problems, and a decoding seed for each (common to all members)."""

    epoch: int
    index: int
    problems: tuple[Problem, ...]
    prompts: tuple[Prompt, ...]
    seeds: tuple[int, ...]

    @property
    def id(self) -> str:
        """Short hash of the problems and their order, for the journal."""
        return hashlib.blake2b("\n".join(p.id for p in self.problems).encode(), digest_size=6).hexdigest()


class Batches:
    """Epochs of shuffled batches. The tail of an epoch is a smaller batch of its own: no prompt is dropped or repeated
    (GSM8K's 7473 problems in batches of 64 make 117 updates, the last of 49)."""

    def __init__(self, problems: Sequence[Problem], prompts: Sequence[Prompt], batch_size: int, run_seed: int) -> None:
        self.problems = problems
        self.prompts = prompts
        self.batch_size = batch_size
        self.run_seed = run_seed
        self.per_epoch = -(-len(problems) // batch_size)

    def at(self, update: int) -> Batch:
        """The batch of one update, counted from 0 over all phases."""
        epoch, index = divmod(update, self.per_epoch)
        chosen = self._chosen(epoch, index)
        problems, prompts = tuple(self.problems[i] for i in chosen), tuple(self.prompts[i] for i in chosen)
        return Batch(epoch, index, problems, prompts, tuple(self._seed(update, i) for i in chosen))

    def redrawn(self, update: int, batch: Batch, places: Sequence[int], before: int) -> tuple[Batch, Sequence[int]]:
        """`batch` with other problems at `places`, and the places where there were some left.

        They come from a second random order of the update, without the problems of its first batch; `before` were taken already.
        """
        first = set(self._chosen(batch.epoch, batch.index))
        order = permutation(len(self.problems), subkey(self.run_seed, "redraw", update))
        others = [int(i) for i in order if i not in first][before : before + len(places)]
        problems, prompts, seeds = list(batch.problems), list(batch.prompts), list(batch.seeds)
        for place, i in zip(places, others, strict=False):
            problems[place], prompts[place], seeds[place] = self.problems[i], self.prompts[i], self._seed(update, i)
        return replace(batch, problems=tuple(problems), prompts=tuple(prompts), seeds=tuple(seeds)), places[: len(others)]

    def _chosen(self, epoch: int, index: int) -> Sequence[int]:
        order = permutation(len(self.problems), subkey(self.run_seed, "order", epoch))
        return [int(i) for i in order[index * self.batch_size : (index + 1) * self.batch_size]]

    def _seed(self, update: int, problem: int) -> int:
        return sampling_seed(self.run_seed, "sampling", update, problem)


def sampling_seed(run_seed: int, purpose: str, *numbers: int) -> int:
    """A decoding seed as a function of its address."""
    return subkey(run_seed, purpose, *numbers) >> (64 - SEED_BITS)
