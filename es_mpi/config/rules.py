"""What must hold between keys; what one key alone must satisfy is in the schema."""

from __future__ import annotations

from collections.abc import Iterator

from es_mpi.config.schema import Config, EdGrpoPhase, EsPhase, GradientPhase, PolicyPhase, PreferencePhase
from es_mpi.errors import UsageError, did_you_mean


def broken_rules(config: Config) -> Iterator[UsageError]:
    """Every rule that a config of right types breaks."""
    yield from _pipeline(config)
    for name, phase in config.phases.items():
        if isinstance(phase, EsPhase):
            yield from _es(phase, f"phases.{name}")
        if isinstance(phase, GradientPhase):
            yield from _gradient(phase, f"phases.{name}", config)
        if isinstance(phase, PolicyPhase):
            yield from _policy(phase, f"phases.{name}", config)
        if isinstance(phase, EdGrpoPhase) and phase.kappa > 0:
            yield from _exploration(phase, f"phases.{name}")
        if isinstance(phase, PreferencePhase) and phase.microbatch < 2:
            expected = "at least 2: a pair is in one forward pass"
            yield UsageError("too small for a pair", value=1, expected=expected, key=f"phases.{name}.microbatch")
    yield from _lengths(config)
    yield from _evaluation(config)
    if config.engine.tensor_parallel != 1:
        yield UsageError(
            "tensor parallelism is not in this version",
            value=config.engine.tensor_parallel,
            expected="1",
            key="engine.tensor_parallel",
        )


def _pipeline(config: Config) -> Iterator[UsageError]:
    for place, name in enumerate(config.pipeline):
        if name not in config.phases:
            yield UsageError("no such phase", value=name, key="pipeline", remedy=did_you_mean(name, config.phases))
        elif name in config.pipeline[:place]:
            yield UsageError("names a phase twice", value=name, key="pipeline", remedy="define a second phase with its own name")


def _es(phase: EsPhase, path: str) -> Iterator[UsageError]:
    population = f"{path}.population"
    if phase.population == 1 and phase.shaping != "none":
        expected = f"at least 2: with one member, {phase.shaping} is always 0"
        yield UsageError("too small to compare members", value=1, expected=expected, key=population)
    if phase.estimator == "antithetic" and phase.population % 2:
        remedy = f"{phase.population + 1}, or estimator: one_point"
        yield UsageError(
            "antithetic members come in pairs", value=phase.population, expected="an even number", key=population, remedy=remedy
        )
    if phase.reward == "task" and not phase.generate:
        remedy = f"true, or {path}.reward: random"
        yield UsageError("the task's reward needs responses", value=False, key=f"{path}.generate", remedy=remedy)
    if phase.reward == "random" and phase.center:
        yield UsageError("theta has no rank among random rewards", value=True, key=f"{path}.center", remedy="false")


def _gradient(phase: GradientPhase, path: str, config: Config) -> Iterator[UsageError]:
    if config.sampling.top_p < 1:
        yield UsageError(
            "a cut distribution has no ratio to the policy that is trained", value=config.sampling.top_p, expected="1.0",
            key="sampling.top_p", remedy=f"1.0, or no phase of kind {phase.kind}",
        )  # fmt: skip
    if config.engine.kind == "toy":
        yield UsageError("the toy has no gradient", value="toy", expected="vllm", key="engine.kind")


def _policy(phase: PolicyPhase, path: str, config: Config) -> Iterator[UsageError]:
    if phase.overlong_buffer > config.sampling.max_tokens:
        expected = f"at most sampling.max_tokens = {config.sampling.max_tokens}"
        yield UsageError("longer than a response", value=phase.overlong_buffer, expected=expected, key=f"{path}.overlong_buffer")


def _exploration(phase: EdGrpoPhase, path: str) -> Iterator[UsageError]:
    """What keeps the push away from pi_prev bounded. kappa = 0 is the control run, for which anything goes."""
    held = phase.edo.gate is not None and phase.edo.kl_cap is not None
    if phase.kappa >= phase.beta_ref and not held:
        yield UsageError(
            "the push away from the previous iterate outweighs the pull to the reference, and nothing else bounds it",
            value=phase.kappa, expected=f"below {path}.beta_ref = {phase.beta_ref}", key=f"{path}.kappa",
            remedy=f"at most beta_ref / 2, or set {path}.edo.gate and {path}.edo.kl_cap",
        )  # fmt: skip
    if phase.edo.estimator == "full" and phase.edo.gate is not None:
        yield UsageError(
            "the gate looks at the drawn token, `full` sums over all tokens", value=phase.edo.gate, expected="null",
            key=f"{path}.edo.gate", remedy="null with a kappa below beta_ref, or estimator: k1",
        )  # fmt: skip


def _lengths(config: Config) -> Iterator[UsageError]:
    limit = config.model.max_model_len
    for key, tokens in (("sampling.max_tokens", config.sampling.max_tokens), ("eval.max_tokens", config.eval.max_tokens)):
        if tokens is not None and tokens >= limit:
            expected = f"less than model.max_model_len = {limit}"
            yield UsageError("leaves no room for a prompt", value=tokens, expected=expected, key=key)


def _evaluation(config: Config) -> Iterator[UsageError]:
    evaluation = config.eval
    too_many = [k for k in evaluation.k if k > evaluation.samples > 0]
    if too_many:
        expected = f"at most eval.samples = {evaluation.samples}"
        yield UsageError("Pass@K needs at least K samples", value=too_many, expected=expected, key="eval.k")
    tasks = evaluation.tasks or (config.task.name,)
    for key, by_task in (("eval.data", evaluation.data), ("eval.rewards", evaluation.rewards)):
        for task, value in by_task.items():
            if task not in tasks:
                yield UsageError("not a task of the evaluation", value=task, key=key, remedy=did_you_mean(task, tasks))
            elif not isinstance(value, str):
                yield UsageError("wrong value", value=value, expected="text", key=f"{key}.{task}")
