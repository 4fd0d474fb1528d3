"""Evaluate a model folder, a hub id, or any step of a run: Pass@1, Pass@K, Maj@K, greedy, each with a 95 % interval."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from es_mpi.cli.text import table
from es_mpi.config.load import Override
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.monitoring.tags import UNITS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL_OR_RUN", nargs="?", help="a model folder, a hub id or a run folder")
    parser.add_argument("--out", metavar="DIR", help="new folder for results.json and every response")
    parser.add_argument("--step", metavar="N", type=int, help="of a run: the weights after this update (default: the last)")
    parser.add_argument("--tasks", metavar="A,B", help="tasks to evaluate on (default: those of the run or config)")
    parser.add_argument("--data", metavar="TASK=FILE", action="append", default=[], help="problems of a task; repeatable")
    parser.add_argument("--samples", metavar="M", type=int, help="sampled responses to each problem")
    parser.add_argument("--k", metavar="1,16", help="the K of Pass@K and Maj@K (default: 1 and M, or the config's)")
    parser.add_argument("--config", metavar="FILE", help="a config whose model is replaced by MODEL")
    parser.add_argument("--regrade", metavar="DIR", help="grade the responses in DIR again; no model is loaded")
    parser.add_argument("--reward", metavar="NAME", help="with --regrade: another grader, also module:function")


def run(args: argparse.Namespace) -> int:
    if args.regrade:
        return _regrade(args)
    if not args.source or not args.out:
        raise UsageError("nothing to evaluate", expected="MODEL_OR_RUN and --out DIR, or --regrade DIR")
    if args.reward:
        raise UsageError("--reward goes with --regrade", key="--reward", remedy="eval.rewards.TASK=NAME")
    from es_mpi.runner.evaluation import evaluate_model

    overrides = [_flags(args), *args.overrides]
    return evaluate_model(args.source, args.out, step=args.step, config=args.config, overrides=overrides, show=show)


def _flags(args: argparse.Namespace) -> Override:
    """The options as sections of a config."""
    section: dict[str, Any] = {}
    if args.tasks:
        section["tasks"] = [name for name in args.tasks.split(",") if name]
    if args.samples is not None:
        section["samples"] = args.samples
        section["k"] = sorted({1, args.samples} - {0})
    if args.k:
        section["k"] = numbers(args.k)
    if args.data:
        pairs = [pair.partition("=") for pair in args.data]
        bad = next(("".join(pair) for pair in pairs if not (pair[0] and pair[2])), None)
        if bad is not None:
            raise UsageError("not a task with a file", value=bad, expected="TASK=FILE", key="--data")
        section["data"] = {name: path for name, _, path in pairs}
    return {"eval": section}


def numbers(text: str) -> list[int]:
    """`1,16` as a list. UsageError."""
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError("not a list of whole numbers", value=text, expected="like 1,16,32", key="--k") from None


def show(facts: Mapping[str, Any]) -> None:
    """results.json as tables."""
    step = "" if facts["step"] is None else f", step {facts['step']}"
    print(f"{facts['source']}{step}: digest {facts['digest']}, {facts['seconds']:.0f} s on {facts['ranks']} rank(s)")
    for name, task in facts["tasks"].items():
        guessing = task.get("guessing", {})
        rows = [
            (metric, number(metric, one["mean"]), f"[{number(metric, one['low'])}, {number(metric, one['high'])}]",
             number(metric, guessing[metric]) if metric in guessing else "")
            for metric, one in task["metrics"].items()
        ]  # fmt: skip
        print(f"\n{name}: {task['problems']} problems, graded by {task['settings']['reward']}")
        print(table(("metric", "value", "95 % interval", "guessing" if guessing else ""), rows))
        for kind, counts in task["verdicts"].items():
            print(f"{kind}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def number(metric: str, value: float) -> str:
    """A metric's value: shares in percent."""
    return f"{value:.3g}" if metric in UNITS else f"{100 * value:.1f} %"


def _regrade(args: argparse.Namespace) -> int:
    from es_mpi.evaluation.regrade import regrade, write_regraded

    for flag in ("source", "tasks", "samples", "config"):
        if getattr(args, flag):
            name = "MODEL_OR_RUN" if flag == "source" else f"--{flag}"
            raise UsageError("has no meaning with --regrade", key=name, value=getattr(args, flag), remedy="leave it out")
    path, out = Path(args.regrade), Path(args.out) if args.out else None
    if out and out.exists():
        raise UsageError("the output folder exists", value=str(out), key="--out", remedy="name a folder that does not exist")
    found = regrade(path, step=args.step, reward=args.reward, ks=numbers(args.k) if args.k else None)
    for name, task in found.items():
        print(f"{name}: {len(task.rows)} responses graded by {task.reward}")
        rows = [(m, number(m, old.mean), number(m, task.after[m].mean)) for m, old in task.before.items()]
        print(table(("metric", "before", "after"), rows))
        moved = sorted(task.moved.items(), key=lambda item: (-item[1], item[0]))
        print("\n".join(f"{count} x {old} -> {new}" for (old, new), count in moved) or "no verdict changed")
    if out:
        write_regraded(path, out, found)
    return EXIT_OK
