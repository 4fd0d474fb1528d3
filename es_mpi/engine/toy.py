"""A policy small enough to read, for fast tests of population, failure and resume logic. It is no language model.

Ten logits are a linear function of the prompt's bytes; the response is one digit. It is driven through the same port,
store, layout and noise as vLLM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_mpi.params.store import MasterStore
from es_mpi.types import Completion, Member, Message, Prompt, Sampling

FEATURES, DIGITS = 64, 10
CONFIG = {"architectures": ["ToyPolicy"], "model_type": "es_mpi_toy", "tie_word_embeddings": False}


class ToyTokenizer:
    """Bytes as tokens, no BOS, no chat template."""

    bos_token_id: int | None = None
    chat_template: str | None = None

    def __call__(self, text: list[str], *, add_special_tokens: bool = True) -> dict[str, list[list[int]]]:
        return {"input_ids": [list(one.encode()) for one in text]}

    def apply_chat_template(self, conversation: list[Message], *, tokenize: bool, add_generation_prompt: bool) -> str:
        raise ValueError("the toy has no chat template")


class ToyEngine:
    """The toy behind the engine port."""

    def __init__(self, store: MasterStore) -> None:
        self.store = store
        self.version = 0
        self.notes: tuple[str, ...] = ()
        self._weights: dict[str, NDArray[np.float64]] = {}

    def load(self, member: Member | None, sigma: float = 0.0) -> int:
        for spec in self.store.layout.tensors:
            written = np.empty(spec.size, np.float32)
            self.store.write(spec.name, written, member, sigma)
            self._weights[spec.name] = written.astype(np.float64).reshape(spec.shape)
        self.version += 1
        return self.version

    def drop_caches(self) -> None:
        """The toy keeps nothing."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        return [self._respond(prompt, sampling, seed) for prompt, seed in zip(prompts, seeds, strict=True)]

    def close(self) -> None:
        self._weights.clear()

    def _respond(self, prompt: Prompt, sampling: Sampling, seed: int) -> Completion:
        logits = self._weights["policy.weight"] @ _features(prompt.token_ids) + self._weights["policy.bias"]
        noise = np.zeros(DIGITS)
        if sampling.temperature > 0:
            logits = logits / sampling.temperature
            noise = np.random.Generator(np.random.PCG64(seed)).gumbel(size=DIGITS)
        digit = int(np.argmax(logits + noise))
        logprobs = (float(logits[digit] - np.logaddexp.reduce(logits)),) if sampling.logprobs else ()
        return Completion(prompt.id, str(digit), (ord(str(digit)),), False, self.version, logprobs)


def recipe(seed: int) -> dict[str, object]:
    """What decides the weights of `write_toy_model`."""
    return {"seed": seed, "features": FEATURES, "digits": DIGITS}


def write_toy_model(out: Path, seed: int = 0) -> None:
    """A checkpoint folder of the toy, its weights drawn from a private generator."""
    from safetensors.numpy import save_file

    out.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.PCG64(seed))
    weight = generator.normal(0.0, 0.1, (DIGITS, FEATURES)).astype(np.float32)
    save_file({"policy.weight": weight, "policy.bias": np.zeros(DIGITS, np.float32)}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")


def _features(token_ids: Sequence[int]) -> NDArray[np.float64]:
    """A fixed unit vector for each prompt: standard normals drawn from a hash of its bytes."""
    digest = hashlib.blake2b(bytes(t % 256 for t in token_ids), digest_size=8).digest()
    draws = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little"))).normal(size=FEATURES)
    return draws / np.linalg.norm(draws)  # type: ignore[no-any-return]
