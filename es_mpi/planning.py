"""What a run will cost before it starts: memory, messages, responses and rough seconds, and what binds.

Bytes and counts are exact. Seconds are a roofline over the assumptions below: good for comparing settings, not for promises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from es_mpi.config.schema import Config, EdGrpoPhase, EdIdpoPhase, EsPhase, EvalConfig, GradientPhase, Phase, PreferencePhase
from es_mpi.devices import CORE, GIB, Device
from es_mpi.params.layout import Layout, read_config

BYTES_PER_MEMBER = 16  # one row of the merged table: member, status, reward
BYTES_PER_WEIGHT = {"bfloat16": 2, "float16": 2, "float32": 4}
CPU_KV_GIB = 1.0
PROCESS_GIB = 1.5  # interpreter, torch and vLLM themselves, resident in every rank
EVAL_PROBLEMS = 500  # assumed where the config does not limit them
PERTURB_NS, PACK_NS, UPDATE_NS = (
    0.35,
    0.6,
    0.31,
)  # a core's time an element: a member's write, a CPU engine's packing, one seed of an update
DEVICE_UPDATE_NS = 0.003  # the same on a GPU: estimated for an A100 from its instruction counts, not measured
ENGINE_STEP_S = 3e-3  # scheduling and sampling of one decode step


@dataclass(frozen=True)
class ModelSize:
    """Parameters, the same with padding, the largest tensor, a tied embedding (0: none) and a token's KV cache in bytes."""

    parameters: int
    elements: int
    largest: int
    tied_embedding: int
    kv_bytes: int


@dataclass(frozen=True)
class PromptSize:
    """Mean tokens of a prompt: its own, and those that all prompts of the task begin with."""

    own: float
    shared: float


@dataclass(frozen=True)
class Memory:
    """Bytes of one rank. `device_master` is the master's copy on a GPU (0: none)."""

    master: int
    device_master: int
    engine: int
    kv_cache: int
    process: int
    training: int  # of gradient phases, beside the master
    on_gpu: bool

    @property
    def gpu(self) -> int:
        return self.device_master + self.engine + self.kv_cache + self.training if self.on_gpu else 0

    @property
    def host(self) -> int:
        return self.master + self.process + (0 if self.on_gpu else self.engine + self.kv_cache + self.training)


@dataclass(frozen=True)
class PhasePlan:
    """One update of a phase. Seconds are those of the busiest rank; `idle` is what the least busy one waits."""

    name: str
    updates: int
    members_per_rank: int
    responses: int
    bytes_per_rank: int
    load_s: float
    generate_s: float
    update_s: float
    idle_s: float

    @property
    def step_s(self) -> float:
        return self.load_s + self.generate_s + self.update_s


@dataclass(frozen=True)
class Plan:
    device: str
    ranks: int
    cores_per_rank: int
    model: ModelSize
    prompt: PromptSize
    memory: Memory
    phases: tuple[PhasePlan, ...]
    evaluations: int
    evaluation_s: float
    concurrent: int
    binds: str
    remedy: str

    @property
    def total_s(self) -> float:
        return sum(phase.updates * phase.step_s for phase in self.phases) + self.evaluations * self.evaluation_s


def master_on_device(choice: str, master: int, fill: int) -> bool:
    """Whether the fp32 master of so many bytes lives on a GPU of which the engine may fill `fill` bytes (0: no GPU).
    `choice` is engine.master."""
    return choice == "device" or (choice == "auto" and 2 * master <= fill)


def evaluations(updates: int, settings: EvalConfig) -> int:
    """How often a run of `updates` evaluates: before, during (the last update left out) and after."""
    during = (updates - 1) // settings.every if settings.every and updates else 0
    return settings.before + during + (settings.after and updates > 0)


def kv_bytes(model: Mapping[str, Any], bytes_per_value: int) -> int:
    """KV cache of one token, from a model's config.json: a key and a value a layer and KV head (0: no attention)."""
    heads = int(model.get("num_attention_heads") or 0)
    if not heads:
        return 0
    head_dim = int(model.get("head_dim") or int(model["hidden_size"]) // heads)
    return 2 * int(model["num_hidden_layers"]) * int(model.get("num_key_value_heads") or heads) * head_dim * bytes_per_value


def model_size(layout: Layout, dtype: str) -> ModelSize:
    """From the headers of the weights and config.json."""
    model = read_config(layout.folder)
    embedding = (model.get("vocab_size"), model.get("hidden_size"))
    return ModelSize(
        parameters=layout.parameters,
        elements=layout.elements,
        largest=max(tensor.size for tensor in layout.tensors),
        tied_embedding=sum(tensor.size for tensor in layout.tensors if layout.tied and tensor.shape == embedding),
        kv_bytes=kv_bytes(model, BYTES_PER_WEIGHT[dtype]),
    )


def plan(config: Config, model: ModelSize, prompt: PromptSize, ranks: int, gpu: Device | None = None, cores: int = 1) -> Plan:
    """The cost of `config` on `ranks` ranks, each with a GPU of this kind or else only its `cores` CPU cores."""
    device = gpu or Device(f"{cores} x {CORE.name}", cores * CORE.flops, cores * CORE.bandwidth)
    memory = memory_of(config, model, gpu)
    context = prompt.own + prompt.shared + config.sampling.max_tokens
    fits = int(memory.kv_cache / (context * model.kv_bytes)) if model.kv_bytes else config.engine.max_num_seqs
    concurrent = max(1, min(config.engine.max_num_seqs, fits))
    writing = _writing(memory, model, device, cores)
    generation = _Generation(model, prompt, device, concurrent, config.engine.prefix_caching)
    rows = tuple(_phase(name, config.phases[name], config, generation, ranks, writing) for name in config.pipeline)
    count = evaluations(sum(row.updates for row in rows), config.eval)
    seconds = _evaluation_seconds(config, generation, ranks)
    binds, remedy = _what_binds(config, memory, gpu, rows, fits)
    return Plan(device.name, ranks, cores, model, prompt, memory, rows, count, seconds, concurrent, binds, remedy)


@dataclass(frozen=True)
class _Generation:
    """Seconds of generation on one device, `concurrent` responses at a time."""

    model: ModelSize
    prompt: PromptSize
    device: Device
    concurrent: int
    prefix_caching: bool

    def seconds(self, responses: float, tokens: int) -> float:
        """Prefill and decode of `responses` responses of `tokens` tokens. A decode step reads the weights and the KV
        cache once and multiplies once for each response."""
        if not responses:
            return 0.0
        shared_once = self.prompt.shared * (1 if self.prefix_caching else responses)
        flops_a_token = 2 * self.model.parameters
        prefill = flops_a_token * (self.prompt.own * responses + shared_once) / self.device.flops
        batch = min(responses, self.concurrent)
        context = self.prompt.own + self.prompt.shared + tokens / 2
        read = (flops_a_token + batch * context * self.model.kv_bytes) / self.device.bandwidth  # 2 bytes a parameter
        step = ENGINE_STEP_S + read + flops_a_token * batch / self.device.flops
        return prefill + math.ceil(responses / batch) * tokens * step


def memory_of(config: Config, model: ModelSize, gpu: Device | None) -> Memory:
    """What one rank takes, with a GPU of this kind or without."""
    width = BYTES_PER_WEIGHT[config.model.dtype]
    packed_head = 0 if gpu else model.tied_embedding  # a CPU engine keeps a packed copy of a tied head
    engine = width * (model.parameters + packed_head + model.largest)
    master = 4 * model.elements
    fill = int(gpu.memory_gib * config.engine.gpu_memory_utilization * GIB) if gpu and gpu.memory_gib else 0
    device_master = master if gpu and master_on_device(config.engine.master, master, fill) else 0
    if config.engine.kv_cache_gib is not None or not fill:
        cache = int((config.engine.kv_cache_gib or CPU_KV_GIB) * GIB)
    else:
        cache = max(0, fill - engine - device_master)
    phases = [config.phases[name] for name in config.pipeline]
    copies = max((_copies(phase, gpu is not None) for phase in phases if isinstance(phase, GradientPhase)), default=0)
    return Memory(master, device_master, engine, cache, int(PROCESS_GIB * GIB), copies * master, gpu is not None)


def _copies(phase: GradientPhase, on_gpu: bool) -> int:
    """Arrays of fp32 as large as the model: gradient, two moments, and what the phase's settings add."""
    frozen = (phase.reference != "none") + isinstance(phase, EdGrpoPhase)
    kept = frozen - (phase.reference == "base")  # on the host of a GPU, for checkpoints
    return 3 + frozen + (1 + kept if on_gpu else 0)


def _writing(memory: Memory, model: ModelSize, device: Device, cores: int) -> tuple[float, float]:
    """Seconds to write one member, and to apply one direction of an update."""
    if memory.device_master:
        return (memory.master + memory.engine) / device.bandwidth, DEVICE_UPDATE_NS * 1e-9 * model.elements
    packing = PACK_NS if device.memory_gib is None else 0.0
    return (PERTURB_NS + packing) * 1e-9 * model.elements / cores, UPDATE_NS * 1e-9 * model.elements / cores


def _phase(
    name: str, phase: Phase, config: Config, generation: _Generation, ranks: int, writing: tuple[float, float]
) -> PhasePlan:
    if isinstance(phase, EsPhase):
        return _es_phase(name, phase, config, generation, ranks, writing)
    assert isinstance(phase, GradientPhase)
    return _gradient_phase(name, phase, config, generation, ranks, writing[0])


def _gradient_phase(
    name: str, phase: GradientPhase, config: Config, generation: _Generation, ranks: int, load: float
) -> PhasePlan:
    """Forward and backward cost 6 FLOP a parameter and token, a forward pass alone 2."""
    model, prompt, batch = generation.model, generation.prompt, config.task.batch_size
    prompts, steps = -(-batch // ranks), -(-batch // (phase.minibatch or batch)) * phase.epochs
    generate = generation.seconds(prompts * phase.group_size, config.sampling.max_tokens)
    trained = phase.group_size
    if isinstance(phase, PreferencePhase) and not isinstance(phase, EdIdpoPhase):
        trained = min(trained, 2 * phase.pairs)  # responses without a partner are left out
    tokens = prompts * trained * (prompt.own + prompt.shared + config.sampling.max_tokens)
    flops = (6 + 2 * isinstance(phase, EdGrpoPhase)) * phase.epochs + 2 * (steps > 1) + 2 * (phase.reference != "none")
    update = flops * model.parameters * tokens / generation.device.flops
    return PhasePlan(
        name=name,
        updates=phase.updates,
        members_per_rank=0,
        responses=phase.group_size * batch,
        bytes_per_rank=steps * 8 * model.elements * (ranks - 1) // ranks,  # a ring sums what every rank holds
        load_s=load,
        generate_s=generate,
        update_s=update,
        idle_s=(prompts - batch // ranks) / prompts * (generate + update),
    )


def _es_phase(
    name: str, phase: EsPhase, config: Config, generation: _Generation, ranks: int, writing: tuple[float, float]
) -> PhasePlan:
    members = -(-phase.evaluations // ranks)
    load, direction = writing
    generate = generation.seconds(config.task.batch_size, config.sampling.max_tokens)
    directions = phase.population // (2 if phase.estimator == "antithetic" else 1)
    return PhasePlan(
        name=name,
        updates=phase.updates,
        members_per_rank=members,
        responses=phase.evaluations * config.task.batch_size,
        bytes_per_rank=BYTES_PER_MEMBER * phase.population,
        load_s=members * load,
        generate_s=members * generate,
        update_s=directions * direction,
        idle_s=(members - phase.evaluations // ranks) * (load + generate),
    )


def _evaluation_seconds(config: Config, generation: _Generation, ranks: int) -> float:
    problems = config.eval.problems or config.task.heldout_size or EVAL_PROBLEMS
    responses = problems * (config.eval.samples + config.eval.greedy) * max(1, len(config.eval.tasks))
    return generation.seconds(responses / ranks, config.eval.max_tokens or config.sampling.max_tokens)


def _what_binds(config: Config, memory: Memory, gpu: Device | None, phases: Sequence[PhasePlan], fits: int) -> tuple[str, str]:
    """What limits the run first, and the key that changes it."""
    if gpu and gpu.memory_gib and memory.gpu > gpu.memory_gib * GIB:
        return f"the memory of one {gpu.name}", "engine.kv_cache_gib lower, or a smaller model.path"
    if fits < 1:
        return (
            "the KV cache does not hold one response of full length",
            "engine.kv_cache_gib higher, or sampling.max_tokens lower",
        )
    longest = max(phases, key=lambda phase: phase.updates * phase.step_s)
    path = f"phases.{longest.name}"
    if longest.idle_s > 0.2 * longest.step_s:
        key = f"{path}.population" if longest.members_per_rank else "task.batch_size"
        return f"ranks wait: {key} does not divide by them", f"{key} a multiple of --ranks"
    if longest.load_s + longest.update_s > longest.generate_s:
        work = "writing members and rebuilding the update" if longest.members_per_rank else "training"
        return work, "engine.threads higher (more cores a rank)"
    if fits < min(config.engine.max_num_seqs, config.task.batch_size):
        return "the KV cache: responses wait for each other", "engine.kv_cache_gib higher"
    most = f"{path}.population = {config.phases[longest.name].evaluations}" if longest.members_per_rank else "task.batch_size"
    more = f"--ranks higher (up to {most})"
    return "generation", f"sampling.max_tokens or task.batch_size lower, or {more}"
