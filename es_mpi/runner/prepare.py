"""Everything that can be wrong is found here, on every rank, before a folder is made or an engine started."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import es_mpi
from es_mpi.checkpoint.folder import require_space
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.comm.launcher import detect
from es_mpi.config.identity import flat
from es_mpi.config.schema import Config, EdGrpoPhase, GradientPhase, Phase
from es_mpi.evaluation.evaluator import EvalSet
from es_mpi.grading.service import Grading
from es_mpi.noise import native
from es_mpi.params.hf_folder import folder_bytes
from es_mpi.params.layout import Layout, read_layout
from es_mpi.params.source import resolve
from es_mpi.runner.memory import require_memory
from es_mpi.tasks.base import Task
from es_mpi.tasks.batches import Batches
from es_mpi.tasks.configured import batchable, evaluation_task, training_grading, training_problems, training_task
from es_mpi.tasks.preflight import gradable
from es_mpi.tasks.prompts import Tokenizer, encode_prompts, load_tokenizer
from es_mpi.types import Prompt, Sampling

MASTER_BYTES = 4  # a parameter in a checkpoint's fp32 master, beside the model folder
OPTIMISER_BYTES, FROZEN_BYTES = 8, 4  # in one of a gradient phase: two moments; the reference and pi_prev

SAMPLED_BLOCKS, BLOCK_BYTES = 64, 4096  # of each weight file, first and last among them


@dataclass(frozen=True)
class Prepared:
    """A checked run: the config and all that was read from files for it."""

    config: Config
    folder: RunFolder
    layout: Layout
    batches: Batches
    grading: Grading
    sampling: Sampling
    evalsets: tuple[EvalSet, ...]
    gradings: tuple[Grading, ...]
    notes: tuple[str, ...]

    @property
    def total(self) -> int:
        """Updates of the whole pipeline."""
        return sum(self.config.phases[name].updates for name in self.config.pipeline)

    def schedule(self) -> list[str]:
        """The phase of every update, by name."""
        return [name for name in self.config.pipeline for _ in range(self.config.phases[name].updates)]


def prepare(config: Config, folder: RunFolder) -> Prepared:
    """Read and check the data, the model's headers, the tokenizer and every prompt. Raises UsageError."""
    task = training_task(config.task)
    grading = training_grading(config.task, config.grading, task)
    problems, notes = gradable(training_problems(config.task, task), grading.name, config.grading.bad_answers)
    problems = batchable(problems, config.task, task)
    gradings = {grading.name: grading}
    layout = read_layout(resolve(config.model.path), config.model.include, config.model.exclude)
    require_memory(config, layout)
    tokenizer = tokenizer_of(config, layout)  # last of the readers: it imports transformers, which takes seconds
    prompts = encode_prompts(
        tokenizer, task, problems, max_model_len=config.model.max_model_len, max_tokens=config.sampling.max_tokens
    )
    evalsets = evaluation_sets(config, task, tokenizer, gradings)  # adds their graders
    prepared = Prepared(
        config=config,
        folder=folder,
        layout=layout,
        batches=Batches(problems, prompts, config.task.batch_size, config.run.seed),
        grading=grading,
        sampling=Sampling(config.sampling.temperature, config.sampling.top_p, config.sampling.max_tokens, task.stop),
        evalsets=evalsets,
        gradings=tuple(gradings.values()),
        notes=tuple(notes),
    )
    _check_space(prepared)
    return prepared


def facts(prepared: Prepared) -> Mapping[str, str]:
    """What must be equal on all ranks before the first step: names that a user can act on, and hashes of the rest."""
    return {
        **evaluation_facts(prepared.config, prepared.layout, prepared.evalsets),
        "run folder": str(prepared.folder.path),
        "training prompts": _hash(prepared.batches.prompts),
    }


def evaluation_facts(config: Config, layout: Layout, evalsets: Sequence[EvalSet]) -> Mapping[str, str]:
    """The part of `facts` that an evaluation needs."""
    return {
        **flat(config),
        "es_mpi version": es_mpi.__version__,
        "noise hash": native.noise_hash(),
        "machine": platform.machine(),
        "model tensors": layout.fingerprint(),
        "model file sizes": _sizes(layout),
        "model file contents": _contents(layout),
        "evaluation prompts": _hash([prompt for evalset in evalsets for prompt in evalset.prompts]),
    }


def threads(config: Config) -> int:
    """Threads of this rank: `engine.threads`, or its share of the cores that it may run on.

    A rank that its launcher bound has those cores for itself; ranks that all may use every core share them.
    """
    if config.engine.threads:
        return config.engine.threads
    cores = len(os.sched_getaffinity(0))
    launch = detect(os.environ)
    local = launch.local_size if launch and launch.local_size else 1
    return max(1, cores // local) if cores == os.cpu_count() else cores


def checkpoint_bytes(layout: Layout) -> int:
    """What one checkpoint takes on disk: the model folder and the exact fp32 master."""
    return folder_bytes(layout) + MASTER_BYTES * layout.elements


def tokenizer_of(config: Config, layout: Layout) -> Tokenizer:
    if config.engine.kind == "toy":
        from es_mpi.engine.toy import ToyTokenizer

        return ToyTokenizer()
    return load_tokenizer(str(layout.folder))


def evaluation_sets(config: Config, task: Task, tokenizer: Tokenizer, gradings: dict[str, Grading]) -> tuple[EvalSet, ...]:
    """Held-out problems of the tasks to evaluate on, `task` the config's own. Adds their graders to `gradings`. UsageError."""
    return tuple(_evalset(config, task, name, tokenizer, gradings) for name in config.eval.tasks or (config.task.name,))


def _evalset(config: Config, training: Task, name: str, tokenizer: Tokenizer, gradings: dict[str, Grading]) -> EvalSet:
    """One task of the evaluation, with the grader that `eval` or the task names."""
    task = evaluation_task(config.task, config.eval, training, name)
    problems = task.problems("heldout")[: config.task.heldout_size][: config.eval.problems]
    prompts = encode_prompts(
        tokenizer, task, problems, max_model_len=config.model.max_model_len, max_tokens=eval_tokens(config)
    )
    reward = config.eval.rewards.get(name) or (config.task.reward if task.name == training.name else None) or task.reward
    grading = gradings.setdefault(reward, Grading(reward, config.grading))
    return EvalSet(task.name, task.version, problems, prompts, task.stop, grading, getattr(task, "choices", None))


def eval_tokens(config: Config) -> int:
    """The longest response in an evaluation."""
    return config.eval.max_tokens or config.sampling.max_tokens


def _check_space(prepared: Prepared) -> None:
    """Room for the checkpoints that will stand at once (one more than `keep` while one is written)."""
    every = prepared.config.checkpoint.every
    made = 1 + (prepared.total - 1) // every if every else 1
    standing = min(prepared.config.checkpoint.keep + 1, made)
    beside = max(_beside(prepared.config.phases[name]) for name in prepared.config.pipeline) * prepared.layout.elements
    require_space(prepared.folder.path, standing * (checkpoint_bytes(prepared.layout) + beside), key="run.dir")


def _beside(phase: Phase) -> int:
    """Bytes a parameter that a checkpoint within the phase holds beside the weights."""
    if not isinstance(phase, GradientPhase):
        return 0
    return OPTIMISER_BYTES + FROZEN_BYTES * ((phase.reference == "phase_start") + isinstance(phase, EdGrpoPhase))


def _sizes(layout: Layout) -> str:
    files = sorted({spec.file for spec in layout.tensors})
    return ", ".join(f"{file}: {(layout.folder / file).stat().st_size}" for file in files)


def _contents(layout: Layout) -> str:
    """Hash of config.json and of blocks spread over each weight file.

    A whole SHA-256 would read the model once more, minutes on a shared file system. The faults that are met are another model
    of the same shape, which differs in every block, and a copy that ended early, which the sizes and the last block show.
    """
    digest = hashlib.blake2b((layout.folder / "config.json").read_bytes(), digest_size=8)
    for name in sorted({spec.file for spec in layout.tensors}):
        with (layout.folder / name).open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            for block in range(SAMPLED_BLOCKS):
                file.seek(max(0, end - BLOCK_BYTES) * block // (SAMPLED_BLOCKS - 1))
                digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def _hash(prompts: Sequence[Prompt]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for prompt in prompts:
        digest.update(f"{prompt.id}:{prompt.token_ids};".encode())
    return digest.hexdigest()
