"""vLLM inside the rank's own process, its weights rewritten in place for every member."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from es_mpi.config.schema import EngineConfig, ModelConfig
from es_mpi.engine import vllm_cpu
from es_mpi.engine.quiet import keeping, logging_config, output_to
from es_mpi.errors import EngineError
from es_mpi.params.store import MasterStore
from es_mpi.types import Completion, Member, Prompt, Sampling

PROBE = Member(index=0, seed=0x5EED, sign=1)
PROBE_SIGMA = 0.5  # as large as weights are, so that a stale copy cannot pass for rounding
PROBE_PROMPT = Prompt("probe", (1, 2, 3, 4))
PROBE_TOKENS = 4


@dataclass
class VllmEngine:
    """One in-process vLLM on this rank's device. `log` receives what vLLM has to say (None: the console)."""

    model: ModelConfig
    config: EngineConfig
    store: MasterStore
    log: Path | None = None
    version: int = 0
    notes: tuple[str, ...] = ()
    _llm: Any = field(default=None, init=False, repr=False)
    _weights: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._environment()
        try:
            with output_to(self.log), keeping("LD_PRELOAD"):  # vLLM sets it for workers, which there are none of
                self._start()
                self._self_test()
        except (RuntimeError, ValueError, OSError, ImportError) as error:
            where = f"; its log: {self.log}" if self.log else ""
            raise EngineError(f"vLLM did not start: {type(error).__name__}: {error}{where}") from error

    def load(self, member: Member | None, sigma: float = 0.0) -> int:
        self.version += 1
        self._weights.write(member, sigma)
        self.drop_caches()
        return self.version

    def drop_caches(self) -> None:
        if self.config.prefix_caching and not self._llm.reset_prefix_cache():
            raise EngineError("vLLM refused to reset its prefix cache: blocks are still in use after generation ended")

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        from vllm import SamplingParams, TokensPrompt

        version = self.version
        common = {
            "max_tokens": sampling.max_tokens, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "stop": list(sampling.stop) or None, "logprobs": 0 if sampling.logprobs else None,  # 0: of the chosen token alone
        }
        params = [SamplingParams(seed=None if sampling.temperature == 0 else seed, **common) for seed in seeds]
        inputs = [TokensPrompt(prompt_token_ids=list(p.token_ids)) for p in prompts]
        outputs = self._llm.generate(inputs, params, use_tqdm=False)
        if len(outputs) != len(prompts) or self.version != version:
            raise EngineError(f"asked for {len(prompts)} responses of version {version}, got {len(outputs)} of {self.version}")
        return [
            Completion(prompt.id, o.text, tuple(o.token_ids), o.finish_reason == "length", version, _logprobs(o))
            for prompt, o in zip(prompts, (output.outputs[0] for output in outputs), strict=True)
        ]

    def prompt_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of every token of each sequence but its first, given those before it."""
        from vllm import SamplingParams, TokensPrompt

        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        inputs = [TokensPrompt(prompt_token_ids=list(s)) for s in sequences]
        outputs = self._llm.generate(inputs, params, use_tqdm=False)
        return [
            [entry[token].logprob for token, entry in zip(sequence[1:], output.prompt_logprobs[1:], strict=True)]
            for sequence, output in zip(sequences, outputs, strict=True)
        ]

    def logprobs(self, prompts: Sequence[Prompt], responses: Sequence[Sequence[int]]) -> list[tuple[float, ...]]:
        sequences = [[*prompt.token_ids, *response] for prompt, response in zip(prompts, responses, strict=True)]
        starts = [len(prompt.token_ids) - 1 for prompt in prompts]
        return [tuple(found[start:]) for start, found in zip(starts, self.prompt_logprobs(sequences), strict=True)]

    def close(self) -> None:
        """Stop the engine and give its memory back."""
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown()
            self._llm = self._weights = None
            self.store.follow(None)

    def _environment(self) -> None:
        """What vLLM reads from the environment; set before its first import in this process."""
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_NO_USAGE_STATS"] = "1"
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO" if self.config.verbose else "WARNING")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        if self.log is not None:
            os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(logging_config(self.log))
        vllm_cpu.prepare_environment(self.config.deterministic)

    def _start(self) -> None:
        import torch
        from vllm import LLM
        from vllm.platforms import current_platform

        from es_mpi.engine import vllm_weights

        on_cpu = current_platform.is_cpu()
        if on_cpu:
            torch.set_num_threads(self.store.threads)
            self.notes = vllm_cpu.notes(self.model.dtype)
            if self.config.deterministic:
                vllm_cpu.pad_single_rows()
        eager = self.config.enforce_eager if self.config.enforce_eager is not None else on_cpu
        if eager:
            # vLLM compiles some functions even then, which takes seconds, a compiler, and a folder without a space in its name.
            torch.compiler.set_stance("force_eager")
        self._weights = vllm_weights.WeightMap(
            self.store, getattr(torch, self.model.dtype), self.config.master, self.config.gpu_memory_utilization
        )
        vllm_weights.register_loader(self._weights)
        gc.freeze()  # vLLM collects garbage five times while it starts; nothing that exists by now is any
        self._llm = LLM(**self._arguments(on_cpu, eager))
        self._llm.collective_rpc(lambda worker: self._weights.bind(worker.model_runner.model))
        self.notes += (self._weights.note,) if self._weights.note else ()

    def _arguments(self, on_cpu: bool, eager: bool) -> dict[str, Any]:
        gib = self.config.kv_cache_gib or (vllm_cpu.KV_CACHE_GIB if on_cpu else None)
        block = self.config.block_size or (vllm_cpu.BLOCK_SIZE if on_cpu and self.config.prefix_caching else None)
        arguments: dict[str, Any] = {
            "model": str(self.store.layout.folder), "load_format": "es_mpi", "dtype": self.model.dtype,
            "max_model_len": self.model.max_model_len, "max_num_seqs": self.config.max_num_seqs, "seed": 0,
            "enforce_eager": eager, "enable_prefix_caching": self.config.prefix_caching,
            "enable_chunked_prefill": False if on_cpu else None,  # a seeded request that is chunked crashes on a CPU
            "max_num_batched_tokens": self.config.max_num_batched_tokens, "disable_log_stats": True,
            "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled from, temperature and nucleus included
            "gpu_memory_utilization": self.config.gpu_memory_utilization, "block_size": block,
            "kv_cache_memory_bytes": int(gib * 2**30) if gib else None,
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def _self_test(self) -> None:
        """A perturbation must reach every engine tensor, change what the engine says, and leave no trace in the centre.

        Tensors are compared one by one for the perturbation; the centre, written the same way, by its greedy response.
        """
        before = self._say()
        self.load(PROBE, PROBE_SIGMA)
        wrong, changed = self._weights.mismatches(PROBE, PROBE_SIGMA), self._say()
        self.load(None)
        if wrong:
            raise EngineError(f"weights written into vLLM did not arrive in {len(wrong)} tensors, first: {wrong[:3]}")
        if changed == before:
            raise EngineError("a perturbation of every weight left vLLM's response unchanged")
        if self._say() != before:
            raise EngineError("vLLM does not respond the same after the centre was written back")

    def _say(self) -> tuple[int, ...]:
        return self.generate([PROBE_PROMPT], Sampling(0.0, 1.0, PROBE_TOKENS), [0])[0].token_ids


def _logprobs(output: Any) -> tuple[float, ...]:
    """Log-probabilities of a response's own tokens; none if they were not asked for."""
    entries = zip(output.token_ids, output.logprobs or (), strict=output.logprobs is not None)
    return tuple(entry[token].logprob for token, entry in entries)
