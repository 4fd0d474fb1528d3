"""An engine that samples from a tiny random Llama by transformers, a grader of its symbols, and a context of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from thread_comm import run_threads

from es_mpi.comm.port import Comm
from es_mpi.comm.torch_group import TorchGroup
from es_mpi.gradient.trainer import load_module
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.phases.context import RunContext, StepReport
from es_mpi.tasks.batches import Batches
from es_mpi.types import Completion, Grade, Member, Problem, Prompt, Sampling, Verdict

LENGTH, SYMBOLS, WANTED = 4, 12, 7


@dataclass
class ModuleEngine:
    """Samples token by token from a copy of the master."""

    store: MasterStore
    version: int = 0
    notes: Sequence[str] = ()
    copy: Any = field(init=False)

    def __post_init__(self) -> None:
        self.copy = self.store.master.copy()
        self.module = load_module(self.store.layout, self.copy, "cpu")

    def load(self, member: Member | None, sigma: float = 0.0) -> int:
        self.copy[:] = self.store.master
        self.version += 1
        return self.version

    def drop_caches(self) -> None: ...

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        return [self._respond(prompt, sampling, seed) for prompt, seed in zip(prompts, seeds, strict=True)]

    def _respond(self, prompt: Prompt, sampling: Sampling, seed: int) -> Completion:
        generator, tokens, logprobs = torch.Generator().manual_seed(seed), list(prompt.token_ids), []
        for _ in range(1 + seed % LENGTH):  # unequal lengths
            log_probs = (self.module(torch.tensor([tokens])).logits[0, -1] / sampling.temperature).log_softmax(-1)
            tokens.append(int(torch.multinomial(log_probs.exp(), 1, generator=generator)))
            logprobs.append(float(log_probs[tokens[-1]]))
        response = tuple(tokens[len(prompt.token_ids) :])
        text = " ".join(map(str, response))
        return Completion(prompt.id, text, response, False, self.version, tuple(logprobs))

    def close(self) -> None: ...


@dataclass
class Share:
    """Rewards the share of wanted symbols, right where there is one; `broken` fails on the first response of every batch."""

    broken: bool = False

    def submit(self, items: Sequence[Any]) -> Callable[[], list[Grade]]:
        def grade(text: str) -> Grade:
            words = text.split()
            share = words.count(str(WANTED)) / len(words)
            return Grade(Verdict.RIGHT if share else Verdict.WRONG, share)

        grades = [grade(item.response) for item in items]
        return lambda: [Grade(Verdict.ERROR, math.nan), *grades[1:]] if self.broken else grades


def make_llama(out: Path) -> Path:
    """A random model of two thousand parameters, saved in `out`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=SYMBOLS, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model, generator = LlamaForCausalLM(config), torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    model.save_pretrained(out)
    return out


def context(folder: Path, comm: Comm, grading: Share | None = None, batch_size: int = 5) -> RunContext:
    problems = [Problem(str(i), "?", "!") for i in range(5)]
    prompts = [Prompt(str(i), (3, 4 + i, *range(i))) for i in range(5)]
    batches = Batches(problems, prompts, batch_size, run_seed=1)
    engine = ModuleEngine(MasterStore(read_layout(folder)))
    return RunContext(1, comm, engine, batches, grading or Share(), Sampling(0.0, 1.0, LENGTH))  # type: ignore[arg-type]


def run_ranks(phases: Sequence[Any], steps: int) -> list[tuple[list[StepReport], Any]]:
    """Each rank's reports of `steps` updates and its master afterwards, with one of `phases` on each of so many ranks.

    The phases were opened alone, and outside the threads: transformers patches modules while it loads.
    """

    def program(comm: Comm) -> tuple[list[StepReport], Any]:
        comm.hosts = ["here"] * comm.size
        phase = phases[comm.rank]
        phase.run = replace(phase.run, comm=comm)
        if hasattr(phase, "exploration"):
            phase.exploration.comm = comm
        phase.group = phase.trainer.group = TorchGroup(comm, "cpu")
        reports = [phase.step(i) for i in range(steps)]
        phase.close()
        return reports, phase.run.engine.store.master

    found = run_threads(len(phases), program)
    assert not [result for result in found if isinstance(result, BaseException)], found
    return found
