"""How far a model moved from its base, beside what random rewards would show: a random walk's law, a normal, a null run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from es_mpi.cli.text import pairs, table
from es_mpi.errors import EXIT_OK, UsageError

COLUMNS = {"model": "model", "stored": "as stored", "null": "null run"}
ROWS = {"relative": "relative L2", "norm": "norm", "rms": "rms", "moved": "moved", "largest": "largest"}
LAW = ("alpha", "updates", "population")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="the model before training: a folder or a hub id")
    parser.add_argument("model", metavar="MODEL", help="after: a folder, a hub id, a run folder or one of its checkpoints")
    parser.add_argument("--step", metavar="N", type=int, help="of a run: after this update (default: its newest checkpoint)")
    parser.add_argument("--null", metavar="RUN", help="a run on random rewards (reward: random), as one more column")
    for name, kind in zip(LAW, (float, int, int), strict=True):
        parser.add_argument(f"--{name}", type=kind, help="for the law alpha * sqrt(T / N) where MODEL is no run")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    from es_mpi.analysis.gaussian import journal_std
    from es_mpi.analysis.report import drift_report
    from es_mpi.runner.sources import open_source, require_base

    base, model = open_source(args.base), open_source(args.model, args.step)
    null = open_source(args.null) if args.null else None
    for source in filter(None, (model, null)):
        require_base(base.weights, source)
    std = law_std(args, model.records if model.config else None)
    report = drift_report(base.weights, model.weights, std, null.weights if null else None)
    facts = {"base": base.name, "model": model.name, "step": model.step, "null": null.name if null else None, **report}
    if null:
        facts["null_std"] = journal_std(null.records) if null.config else None
    print(json.dumps(facts, indent=2) if args.json else "\n\n".join(as_text(facts)))
    return EXIT_OK


def law_std(args: argparse.Namespace, records: Any) -> float | None:
    """The law's standard deviation of a weight, from a run's journal or from the options. Raises UsageError for some of them."""
    from es_mpi.analysis.gaussian import journal_std, random_walk_std

    given = [getattr(args, name) for name in LAW]
    if records is not None or given == [None] * len(LAW):
        if given != [None] * len(LAW):
            raise UsageError("a run's journal has them", key="--alpha, --updates, --population", remedy="leave them out")
        return None if records is None else journal_std(records)
    if None in given or not (args.alpha > 0 and args.updates > 0 and args.population > 0):
        value = ", ".join(f"{name} {value}" for name, value in zip(LAW, given, strict=True))
        raise UsageError("the law needs all three, above 0", key="--alpha, --updates, --population", value=value)
    return random_walk_std(*given)


def as_text(facts: dict[str, Any]) -> Iterator[str]:
    """The report in parts: what was compared, the whole, kinds, layers, the sparsity curve."""
    after = f"{facts['model']}" + ("" if facts["step"] is None else f", after update {facts['step']}")
    walk = f", whose random walk has rms {facts['null_std']:.4g}" if facts.get("null_std") else ""
    null = [("null run", f"{facts['null']}{walk}")] if facts["null"] else []
    count = f"{facts['parameters']:,}, {facts['trained']:,} of them trained"
    yield pairs([("base", facts["base"]), ("model", after), *null, ("parameters", count)])
    columns = list(facts["columns"])
    header = ("", *(COLUMNS[column] for column in columns))
    yield table(header, [(text, *(_number(row, facts["columns"][c][row]) for c in columns)) for row, text in ROWS.items()])
    yield _law(facts["law"])
    for group, title in (("kinds", "kind"), ("layers", "layer")):
        parts = [f"{COLUMNS[c]} {what}" for c in columns for what in ("relative", "moved")]
        rows = [
            (name, *(_number(row, found[c][row]) for c in columns for row in ("relative", "moved")))
            for name, found in facts[group].items()
        ]
        yield table((title, *parts), rows)
    if facts["largest"]:
        yield "of the 100 largest: " + ", ".join(f"{count} {kind}" for kind, count in facts["largest"].items())
    if facts["sparsity"]:
        yield _curve(facts["sparsity"])


def _law(law: dict[str, float] | None) -> str:
    if law is None:
        return "random walk  no law: MODEL is no ES run, and --alpha, --updates, --population are not given"
    return pairs(
        [
            ("random walk", f"norm {law['norm']:.4g}, rms {law['std']:.4g}  (alpha * sqrt(T / N) a weight, whatever the reward)"),
            ("norm / walk", f"{law['ratio']:.4f}  (1: the size of the drift says nothing of what was learnt)"),
        ]
    )


def _curve(rows: list[dict[str, Any]]) -> str:
    columns = [name for name in ("model", "gaussian", "null") if name in rows[0]]
    header = ("|Delta| at most", *(f"{c} {what}" for what in ("sparsity", "norm^2 kept") for c in columns))
    lines = [
        (f"{row['threshold']:.4g}", *(f"{100 * row[c][what]:.2f} %" for what in ("sparsity", "kept") for c in columns))
        for row in rows
    ]
    return table(header, lines)


def _number(row: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.2f} %" if row == "moved" else f"{value:.4g}"
