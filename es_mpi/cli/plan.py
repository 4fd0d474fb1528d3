"""What a run will cost: memory a rank, bytes a step, responses and rough seconds, what binds and which key changes it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from itertools import takewhile

from es_mpi import devices, planning
from es_mpi.cli.arguments import add_config, config_of
from es_mpi.cli.inputs import layout_of
from es_mpi.cli.text import duration, pairs, size, table
from es_mpi.config import Config
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.params.layout import Layout
from es_mpi.tasks.configured import training_problems, training_task
from es_mpi.types import PromptText

PROMPTS_READ = 200
CHAT_MARKS = "<|role|>\n"  # what a chat template puts around a turn, about


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--ranks", metavar="R", type=int, required=True)
    parser.add_argument(
        "--gpu", metavar="NAME", help=f"one a rank: {', '.join(devices.GPUS)}; without it the engine runs on the CPU"
    )
    parser.add_argument("--cores", metavar="N", type=int, help="CPU cores of a rank (default: engine.threads, or 1)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    cores = args.cores if args.cores is not None else config.engine.threads or 1
    for flag, value in (("--ranks", args.ranks), ("--cores", cores)):
        if value < 1:
            raise UsageError("out of range", value=value, expected="at least 1", key=flag)
    gpu = devices.find_gpu(args.gpu) if args.gpu else None
    model = planning.model_size(_layout(config), config.model.dtype)
    plan = planning.plan(config, model, prompt_size(config), args.ranks, gpu, cores)
    print(as_json(plan) if args.json else as_text(plan, config.sampling.max_tokens))
    return EXIT_OK


def _layout(config: Config) -> Layout:
    layout = layout_of(config)
    if layout is None:
        raise UsageError("a plan needs the model's folder on this machine", value=config.model.path, key="model.path")
    return layout


def prompt_size(config: Config) -> planning.PromptSize:
    """Estimated from the text of some training prompts: digits and marks alone, words in pieces of six letters."""
    task = training_task(config.task)
    texts = [_text(task.prompt(problem)) for problem in training_problems(config.task, task)[:PROMPTS_READ]]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(min(texts), max(texts), strict=False))
    shared = len(list(same)) if len(texts) > 1 else 0
    own = sum(_tokens(text[shared:]) for text in texts) / len(texts)
    return planning.PromptSize(own, _tokens(texts[0][:shared]))


def _text(prompt: PromptText) -> str:
    return prompt if isinstance(prompt, str) else CHAT_MARKS + CHAT_MARKS.join(turn["content"] for turn in prompt)


def _tokens(text: str) -> int:
    return len(re.findall(r"[^\W\d]{1,6}|\d|[^\w\s]", text))


def as_json(plan: planning.Plan) -> str:
    facts = dataclasses.asdict(plan)
    facts["memory"] |= {"host": plan.memory.host, "gpu": plan.memory.gpu}
    for phase, row in zip(plan.phases, facts["phases"], strict=True):
        row["step_s"] = phase.step_s
    return json.dumps({**facts, "total_s": plan.total_s}, indent=2)


def as_text(plan: planning.Plan, tokens: int) -> str:
    memory = plan.memory
    head = pairs(
        [
            ("model", f"{plan.model.parameters:,} parameters"),
            ("prompts", f"{plan.prompt.own:.0f} tokens and {plan.prompt.shared:.0f} shared, responses up to {tokens}"),
            ("ranks", f"{plan.ranks}, each {plan.device}"),
            ("host memory a rank", size(memory.host)),
            ("GPU memory a rank", size(memory.gpu) if memory.on_gpu else "none"),
            ("  master", f"{size(memory.master)}  (fp32, on the {'host and the GPU' if memory.device_master else 'host'})"),
            ("  engine", f"{size(memory.engine)}  (weights, packed copies, scratch)"),
            ("  KV cache", f"{size(memory.kv_cache)}  ({plan.concurrent} responses of full length at a time)"),
            ("  training", f"{size(memory.training)}  (gradient phases: gradient, AdamW, reference; the weights on a GPU)"),
            ("  libraries", f"{size(memory.process)}  (about)"),
        ]
    )
    header = (
        "phase",
        "updates",
        "members a rank",
        "responses",
        "bytes a rank",
        "load",
        "generate",
        "update",
        "idle",
        "one update",
    )
    rows = [
        (
            phase.name,
            str(phase.updates),
            str(phase.members_per_rank or "-"),
            f"{phase.responses:,}",
            f"{phase.bytes_per_rank:,}",
            *(duration(seconds) for seconds in (phase.load_s, phase.generate_s, phase.update_s, phase.idle_s, phase.step_s)),
        )
        for phase in plan.phases
    ]
    tail = pairs(
        [
            ("evaluations", f"{plan.evaluations} of {duration(plan.evaluation_s)}"),
            ("whole run", f"{duration(plan.total_s)}  (rough: full-length responses, assumed device figures)"),
            ("binds", plan.binds),
            ("change", plan.remedy),
        ]
    )
    return f"{head}\n\n{table(header, rows)}\n\n{tail}"
