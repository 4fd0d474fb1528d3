"""Compare evaluations on the same problems: paired differences to the first with 95 % intervals and tests; gained and lost."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from es_mpi.checkpoint.files import replacing
from es_mpi.cli.eval import number, numbers
from es_mpi.cli.text import table
from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.evaluation.folder import Evaluation, read_evaluation
from es_mpi.evaluation.groups import compare_groups
from es_mpi.evaluation.page import page
from es_mpi.monitoring.tags import UNITS

Group = tuple[str, Sequence[Evaluation]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dirs", metavar="DIR", nargs="*", help="folders of es-mpi eval, or run folders; @N after one is its step")
    parser.add_argument(
        "--group", metavar="NAME=DIR,DIR", action="append", default=[], help="one method with several training seeds; repeatable"
    )
    parser.add_argument("--tasks", metavar="A,B", help="only these tasks (default: all that they share)")
    parser.add_argument("--k", metavar="1,16", help="the K of Pass@K and Maj@K (default: powers of two)")
    parser.add_argument("--json", metavar="FILE", help="everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="everything as one page that needs no network")


def run(args: argparse.Namespace) -> int:
    groups = [(text.rstrip("/"), [_read(text)]) for text in args.dirs] + [_group(text) for text in args.group]
    names = [name for name, _ in groups]
    if len(names) < 2:
        raise UsageError("nothing to compare", value=" ".join(names), expected="two folders or groups or more")
    if len(set(names)) < len(names):
        remedy = "--group NAME=DIR gives a folder a name"
        raise UsageError("the same name twice", value=", ".join(names), expected="different folders", remedy=remedy)
    tasks, ks = args.tasks.split(",") if args.tasks else [], numbers(args.k) if args.k else None
    found = compare_groups(dict(groups), tasks, ks)
    for line in as_text(found):
        print(line)
    if args.json:
        write_file(args.json, json.dumps(found, indent=2, allow_nan=False) + "\n", "--json")
    if args.html:
        write_file(args.html, page(found, dict(groups)), "--html")
    return EXIT_OK


def _group(text: str) -> Group:
    name, equals, folders = text.partition("=")
    if not (name and equals and folders):
        raise UsageError("not a group", value=text, expected="NAME=DIR,DIR,...", key="--group")
    return name, [_read(folder) for folder in folders.split(",")]


def _read(text: str) -> Evaluation:
    """An evaluation; RUN@N is that of a run after step N."""
    path, at, step = text.rpartition("@")
    if at and step.isdigit() and not Path(text).exists():
        return read_evaluation(Path(path), int(step))
    return read_evaluation(Path(text))


def write_file(path: str, text: str, key: str) -> None:
    """Replace the file `path`. Raises UsageError, about the option `key`, where the disk refuses."""
    try:
        with replacing(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", value=path, key=key) from error


def as_text(found: Mapping[str, Any]) -> list[str]:
    """The comparison as lines: a table a task with the first side's values and the differences of the others."""
    first, *others = found["names"]
    lines = [f"differences to {first}, [95 % interval over problems], p of a paired permutation test, Holm over tasks"]
    for task, one in found["tasks"].items():
        lines += ["", f"{task}: {one['problems']} problems", *(f"  note: {note}" for note in one["notes"])]
        rows = [
            (metric, number(metric, mean["mean"]), *(_shown(metric, one["differences"][side].get(metric)) for side in others))
            for metric, mean in one["metrics"][first].items()
        ]
        lines.append(table(("metric", first, *others), rows))
        for side in others:
            gained, lost = (one["changes"][side][kind] for kind in ("gained", "lost"))
            lines.append(f"{side}: {len(gained)} problems gained, {len(lost)} lost")
            lines += _seeds(side, one["differences"][side])
    return lines


def _shown(metric: str, one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "not available"
    return f"{difference(metric, one)} p={one['p_holm']:.2g}"


def difference(metric: str, one: Mapping[str, float]) -> str:
    """A difference with its interval."""
    return f"{points(metric, one['mean'])} [{points(metric, one['low'])}, {points(metric, one['high'])}]"


def _seeds(side: str, differences: Mapping[str, Any]) -> list[str]:
    return [
        f"  {side}, {metric} over training seeds: {difference(metric, one['over_seeds'])}"
        for metric, one in differences.items()
        if "over_seeds" in one
    ]


def points(metric: str, value: float) -> str:
    """A difference: of shares in percentage points."""
    return f"{value:+.3g}" if metric in UNITS else f"{100 * value:+.1f}"
