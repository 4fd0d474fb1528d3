"""The config: every key with its type, default, range and meaning. docs/configuration.md is this file as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from es_mpi.config.keys import Key, neutral

Dtype = Literal["bfloat16", "float16", "float32"]
FOLDER_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+=-]*"
PHASE_NAME = r"[A-Za-z][A-Za-z0-9_-]*"


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    name: Annotated[str, neutral("Folder of the run below `run.dir`.", pattern=FOLDER_NAME)] = "run"
    dir: Annotated[str, neutral("Where run folders are made.")] = "runs"
    seed: Annotated[int, Key("Root of every random choice: noise, prompt order, sampling.", at_least=0, at_most=2**64 - 1)] = 0


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    path: Annotated[str, Key("Folder of a Hugging Face model, or its id on the hub.", pattern=".+")]
    dtype: Annotated[Dtype, Key("Type of the engine's weights; the master is always float32.")] = "bfloat16"
    max_model_len: Annotated[int, Key("Longest prompt plus response.", "tokens", at_least=2)] = 1024
    include: Annotated[
        tuple[str, ...],
        Key("Train only tensors whose checkpoint name matches one of these patterns (`*`, `?`, `[...]`); none means all."),
    ] = ()
    exclude: Annotated[tuple[str, ...], Key("Then leave out tensors that match one of these.")] = ()


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    kind: Annotated[
        Literal["vllm", "toy"], Key("What generates; `toy` is ten logits instead of a language model, to try the trainer itself.")
    ] = "vllm"
    max_num_seqs: Annotated[int, neutral("Responses generated at the same time.", at_least=1)] = 256
    max_num_batched_tokens: Annotated[
        int | None, neutral("Tokens of one engine step; null lets the engine choose.", "tokens", at_least=1)
    ] = None
    gpu_memory_utilization: Annotated[
        float, neutral("Share of a GPU that the engine may fill, weights included.", above=0, at_most=1)
    ] = 0.85
    kv_cache_gib: Annotated[
        float | None, neutral("Size of the KV cache; null means what is free on a GPU, 1 on a CPU.", "GiB", above=0)
    ] = None
    master: Annotated[
        Literal["auto", "host", "device"],
        neutral("Where the fp32 weights live; auto means on a GPU when they take at most half of what the engine may fill."),
    ] = "auto"
    enforce_eager: Annotated[
        bool | None, Key("No compilation, which rounds differently; null means yes on a CPU, no on a GPU.")
    ] = None
    prefix_caching: Annotated[bool, neutral("Reuse what prompts share, within one member.")] = True
    block_size: Annotated[int | None, neutral("KV cache block; null means automatic.", "tokens", at_least=1)] = None
    threads: Annotated[int | None, neutral("Threads of a rank; null means its share of the cores.", at_least=1)] = None
    deterministic: Annotated[bool, Key("Make a response independent of the others in its batch, where the device can.")] = True
    tensor_parallel: Annotated[int, Key("Ranks that share one engine; this version has 1.", at_least=1)] = 1
    verbose: Annotated[bool, neutral("Show the engine's own log on the console.")] = False


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    name: Annotated[str, Key("Task that poses and grades problems.", pattern=".+")]
    train: Annotated[str | None, Key("Training problems, a JSON Lines file; null means the task's own.")] = None
    heldout: Annotated[str | None, Key("Held-out problems, a JSON Lines file; null means the task's own split.")] = None
    batch_size: Annotated[int, Key("Prompts of one update, the same for all members.", "prompts", at_least=1)] = 64
    reward: Annotated[str | None, Key("Name of the training reward; null means the task's own.")] = None
    system: Annotated[str | None, Key("System message of chat prompts; null means the task's own.")] = None
    train_size: Annotated[int | None, Key("Use only the first so many training problems.", "problems", at_least=1)] = None
    heldout_size: Annotated[int | None, Key("Use only the first so many held-out problems.", "problems", at_least=1)] = None
    options: Annotated[Mapping[str, Any], Key("Options of the task itself; each task documents its own.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class GradingConfig:
    workers: Annotated[
        int,
        neutral("Killable processes of a rank for graders that can hang; 0 grades in the rank, without limits.", at_least=0),
    ] = 2
    cpu_s: Annotated[
        float, Key("Longest grading of one response, in time of a CPU; then its verdict is `timeout`.", "seconds", above=0)
    ] = 4.0
    asleep_s: Annotated[
        float, Key("The same where a reward waits for something else, such as a server.", "seconds", above=0)
    ] = 60.0
    memory_gib: Annotated[float, Key("Most memory to grade one response; then it is a `timeout`.", "GiB", above=0)] = 2.0
    max_errors: Annotated[
        float,
        Key("Drop a member of which the grader failed on more than this share of its responses.", "share", at_least=0, at_most=1),
    ] = 0.1
    bad_answers: Annotated[
        Literal["stop", "drop"],
        Key("What happens to training problems whose reference answer the grader does not accept for itself."),
    ] = "stop"


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    temperature: Annotated[float, Key("Temperature of training responses; 0 is greedy.", at_least=0)] = 0.0
    top_p: Annotated[float, Key("Nucleus of training responses.", above=0, at_most=1)] = 1.0
    max_tokens: Annotated[int, Key("Longest response.", "tokens", at_least=1)] = 256


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What every kind of phase has."""

    kind: Annotated[str, Key("Method of the phase.")]
    updates: Annotated[int, Key("Length of the phase.", "updates", at_least=0, at_most=10**7)]

    @property
    def evaluations(self) -> int:
        """How often one update generates responses to its batch."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class EsPhase(Phase):
    """theta += (alpha / N) * sum_i z_i eps_i, where z_i shapes the mean reward of theta + sigma * eps_i."""

    kind: Annotated[Literal["es"], Key("Method of the phase.")]
    population: Annotated[int, Key("N, the members of one update.", "members", at_least=1, at_most=10**6)] = 32
    sigma: Annotated[float, Key("Standard deviation of a member's perturbation.", "weight", above=0, at_most=1e3)] = 1.5e-3
    alpha: Annotated[float, Key("Step size; the classical 1/sigma is inside it.", "weight", at_least=0, at_most=1e3)] = 2.5e-4
    estimator: Annotated[
        Literal["one_point", "antithetic"],
        Key("`antithetic` evaluates theta + sigma*eps and theta - sigma*eps; the population counts both."),
    ] = "one_point"
    shaping: Annotated[Literal["zscore", "centered_rank", "none"], Key("How rewards become coefficients.")] = "zscore"
    reward: Annotated[
        Literal["task", "random"],
        Key("Reward of a member: the task's, or `random`, a seeded normal number instead, all else equal (the null control)."),
    ] = "task"
    generate: Annotated[
        bool, neutral("Generate and grade responses; `false`, for a random reward only, saves nearly all the time of a null run.")
    ] = True
    center: Annotated[
        bool, neutral("Also score theta itself on every batch, for `reward/center` and `es/center_rank`: one member more.")
    ] = False
    min_valid: Annotated[float, Key("Stop below this share of members with a valid reward.", "share", above=0, at_most=1)] = 0.5

    @property
    def evaluations(self) -> int:
        """How often one update generates responses to its batch."""
        return self.population * self.generate + self.center



@dataclass(frozen=True, kw_only=True)
class GradientPhase(Phase):
    """AdamW on a loss of graded responses, a group of them to each prompt of the batch."""

    group_size: Annotated[
        int, Key("G (in preference phases N), responses to each prompt.", "responses", at_least=2, at_most=10**5)
    ] = 8
    temperature: Annotated[float, Key("Temperature of the responses; `sampling.temperature` is for ES.", above=0)] = 1.0
    lr: Annotated[float, Key("Learning rate, constant.", "weight", above=0)] = 1e-6
    minibatch: Annotated[int | None, Key("Prompts of one optimiser step; null means all.", "prompts", at_least=1)] = None
    epochs: Annotated[int, Key("Passes over the responses of one update.", at_least=1, at_most=10**4)] = 1
    microbatch: Annotated[int, Key("Responses in one forward pass of a rank.", "responses", at_least=1)] = 8
    gap_alarm: Annotated[float, Key("Warn above this mean |log pi_trainer - log pi_engine| a token.", "nats", above=0)] = 0.2
    max_grad_norm: Annotated[float, Key("Clip the norm of the gradient.", above=0)] = 1.0
    weight_decay: Annotated[float, Key("Weight decay of AdamW.", at_least=0)] = 0.0
    beta1: Annotated[float, Key("Decay of AdamW's first moment.", at_least=0, at_most=1)] = 0.9
    beta2: Annotated[float, Key("Decay of AdamW's second moment.", at_least=0, at_most=1)] = 0.999
    compute: Annotated[
        Literal["bfloat16", "float32"], Key("Precision of forward and backward passes; weights and optimiser are fp32.")
    ] = "bfloat16"

    @property
    def evaluations(self) -> int:
        return self.group_size

    @property
    def reference(self) -> Literal["none", "phase_start", "base"]:
        """The frozen model that the loss needs beside the trained one."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PolicyPhase(GradientPhase):
    """The clipped policy loss with advantages within the group of one prompt, and a KL loss to a reference."""

    clip_low: Annotated[float, Key("Lower clipping range of the ratio.", at_least=0, at_most=1)] = 0.2
    clip_high: Annotated[float, Key("Upper clipping range of the ratio; DAPO has 0.28.", at_least=0)] = 0.2
    dual_clip: Annotated[float | None, Key("Bound of the loss where the advantage is negative; null means none.", above=1)] = None
    aggregation: Annotated[
        Literal["seq-mean-token-mean", "token-mean", "seq-mean-token-sum-norm"], Key("How tokens make one loss.")
    ] = "seq-mean-token-mean"
    adv_std: Annotated[bool, Key("Divide advantages by the group's standard deviation; Dr. GRPO does not.")] = True
    adv_ddof: Annotated[int, Key("0 divides by G in that deviation, 1 by G - 1.", at_least=0, at_most=1)] = 0
    adv_epsilon: Annotated[float, Key("Added to that deviation.", at_least=0)] = 1e-6
    redraws: Annotated[
        int, Key("Replace prompts with equal rewards by others, so many times at most (DAPO's dynamic sampling).", at_least=0)
    ] = 0
    beta_ref: Annotated[float, Key("Weight of the KL loss to the reference; 0 is without.", at_least=0)] = 0.001
    kl: Annotated[Literal["k1", "k2", "k3", "k3+"], Key("Estimator of that KL; `k3+` has the gradient of k2.")] = "k3"
    ref: Annotated[Literal["phase_start", "base"], Key("The reference: the model at the phase's start, or the base model.")] = (
        "phase_start"
    )
    is_cap: Annotated[float | None, Key("Cap of a token's weight pi_trainer / pi_engine; null means weight 1.", above=0)] = 2.0
    overlong_buffer: Annotated[
        int, Key("Over the last so many tokens of a response lower its reward linearly, by 1 in all.", "tokens", at_least=0)
    ] = 0

    @property
    def reference(self) -> Literal["none", "phase_start", "base"]:
        return self.ref if self.beta_ref > 0 else "none"


@dataclass(frozen=True, kw_only=True)
class GrpoPhase(PolicyPhase):
    """GRPO; DAPO and Dr. GRPO are settings of it."""

    kind: Annotated[Literal["grpo"], Key("Method of the phase.")]


@dataclass(frozen=True, kw_only=True)
class ExplorationConfig:
    """What limits the push away from the previous iterate."""

    gate: Annotated[
        float | None, Key("Push only tokens with pi / pi_prev above 1 - gate; null pushes all.", at_least=0, at_most=1)
    ] = None
    kl_cap: Annotated[
        float | None, Key("Pause until the next iteration above this KL(pi_prev, pi) a token; null never.", "nats", above=0)
    ] = 0.05
    mask_end: Annotated[bool, Key("Leave end-of-text tokens alone: pushing those down makes responses longer.")] = False


@dataclass(frozen=True, kw_only=True)
class TokenExplorationConfig(ExplorationConfig):
    """The same for ED-GRPO, whose iterations last several updates."""

    outer_steps: Annotated[int, Key("Updates of one iteration, at whose start pi_prev is frozen.", "updates", at_least=2)] = 25
    estimator: Annotated[
        Literal["k1", "k3", "full"], Key("Estimator of KL(pi_prev, pi): from the drawn tokens, or over the whole vocabulary.")
    ] = "k1"
    is_cap: Annotated[float, Key("Cap of a token's weight pi_prev / pi_old in that estimate.", above=0)] = 2.0
    gate: Annotated[
        float | None, Key("Push only tokens with pi / pi_prev above 1 - gate; null pushes all.", at_least=0, at_most=1)
    ] = 0.2
    kl_cap: Annotated[
        float | None, Key("Pause until the next iteration above this KL(pi_prev, pi) a token; null never.", "nats", above=0)
    ] = 0.02


@dataclass(frozen=True, kw_only=True)
class EdGrpoPhase(PolicyPhase):
    """GRPO that also moves away from its previous iterate (arXiv 2605.09853)."""

    kind: Annotated[Literal["ed_grpo"], Key("Method of the phase.")]
    kappa: Annotated[float, Key("Weight of the push away from the previous iterate; 0 is GRPO.", at_least=0)] = 5e-4
    edo: TokenExplorationConfig = TokenExplorationConfig()


@dataclass(frozen=True, kw_only=True)
class PreferencePhase(GradientPhase):
    """DPO on pairs of a right and a wrong response; each update is an outer iteration with responses of its own."""

    beta: Annotated[float, Key("Scale of DPO's implicit reward.", above=0)] = 0.1
    nll: Annotated[float, Key("lambda, weight of the winners' log-likelihood a token (IRPO); 0 is plain DPO.", at_least=0)] = 1.0
    pairs: Annotated[int, Key("Most pairs of one prompt.", "pairs", at_least=1)] = 4
    ref: Annotated[
        Literal["previous", "phase_start", "base"],
        Key("The reference of DPO: the model at the update's start, at the phase's, or the base model."),
    ] = "previous"

    @property
    def reference(self) -> Literal["none", "phase_start", "base"]:
        return "none" if self.ref == "previous" else self.ref


@dataclass(frozen=True, kw_only=True)
class IdpoPhase(PreferencePhase):
    """Iterative DPO with the winners' likelihood (IRPO, arXiv 2404.19733)."""

    kind: Annotated[Literal["idpo"], Key("Method of the phase.")]


@dataclass(frozen=True, kw_only=True)
class EdIdpoPhase(PreferencePhase):
    """Iterative DPO that also moves away from its previous iterate (arXiv 2605.09853)."""

    kind: Annotated[Literal["ed_idpo"], Key("Method of the phase.")]
    alpha: Annotated[float, Key("Weight of the exploration term J; alpha * beta weighs a token.", at_least=0)] = 1e-4
    edo: ExplorationConfig = ExplorationConfig()


PHASE_KINDS: Mapping[str, type[Phase]] = {
    "es": EsPhase, "grpo": GrpoPhase, "ed_grpo": EdGrpoPhase, "idpo": IdpoPhase, "ed_idpo": EdIdpoPhase,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    tasks: Annotated[tuple[str, ...], Key("Tasks to evaluate on; none means the training task's held-out problems.")] = ()
    data: Annotated[
        Mapping[str, Any], Key("Held-out problems by task name: files or hub ids, as `task.heldout` is for the training task.")
    ] = field(default_factory=dict)
    rewards: Annotated[Mapping[str, Any], Key("Graders of tasks, by task name; else the task's own.")] = field(
        default_factory=dict
    )
    every: Annotated[int, Key("Evaluate after each so many updates; 0 means only before and after.", "updates", at_least=0)] = 0
    before: Annotated[bool, Key("Evaluate the base model.")] = True
    after: Annotated[bool, Key("Evaluate the trained model.")] = True
    problems: Annotated[int | None, Key("Use only the first so many problems of a task.", "problems", at_least=1)] = None
    samples: Annotated[
        int, Key("M, sampled responses to each problem; 0 means none.", "responses", at_least=0, at_most=10**5)
    ] = 8
    k: Annotated[tuple[int, ...], Key("The K of Pass@K and Maj@K.", at_least=1)] = (1, 8)
    temperature: Annotated[float, Key("Temperature of the sampled responses.", at_least=0)] = 0.6
    top_p: Annotated[float, Key("Nucleus of the sampled responses.", above=0, at_most=1)] = 1.0
    max_tokens: Annotated[int | None, Key("Longest response; null means `sampling.max_tokens`.", "tokens", at_least=1)] = None
    greedy: Annotated[bool, Key("Also one greedy response to each problem.")] = True


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    every: Annotated[int, neutral("Save after each so many updates; 0 means only at the end.", "updates", at_least=0)] = 0
    keep: Annotated[int, neutral("Newest checkpoints that stay.", "checkpoints", at_least=1)] = 2


@dataclass(frozen=True, kw_only=True)
class CommConfig:
    deadline_s: Annotated[float, neutral("Longest wait for another rank.", "seconds", above=0)] = 1800.0
    fault_tolerance: Annotated[
        Literal["auto", "off"],
        neutral("`auto`: where MPI reports dead ranks (mpirun --with-ft ulfm) the others go on; elsewhere, and if `off`, none."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class MonitorConfig:
    console: Annotated[
        Literal["auto", "rich", "plain", "off"], neutral("Progress display; `auto` is rich on a terminal, else plain.")
    ] = "auto"
    tensorboard: Annotated[bool, neutral("Write TensorBoard files to the run folder.")] = True


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole run, resolved: `pipeline` always names the phases in their order."""

    run: RunConfig = RunConfig()
    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    task: TaskConfig
    grading: GradingConfig = GradingConfig()
    sampling: SamplingConfig = SamplingConfig()
    pipeline: Annotated[tuple[str, ...], Key("Order of the phases; none means all, in file order.")] = ()
    phases: Annotated[Mapping[str, Phase], Key("The phases by name; names are free.", pattern=PHASE_NAME)]
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    comm: CommConfig = CommConfig()
    monitor: MonitorConfig = MonitorConfig()
