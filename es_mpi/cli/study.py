"""A grid of runs over one base config, and its results in one table with intervals over problems and over seeds.

Each cell of the grid is a normal run. Finished runs are skipped and begun ones continued, so the same command goes on after any
end. The study starts the ranks of each run itself: --launcher 'mpirun -n 8'.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from es_mpi.cli.compare import difference, write_file
from es_mpi.cli.eval import number
from es_mpi.cli.text import table
from es_mpi.errors import EXIT_OK, UsageError

Row = Mapping[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a YAML file: docs/analysis.md#studies")
    parser.add_argument("--launcher", metavar="WORDS", default="", help="what starts the ranks of a run (default: one process)")
    parser.add_argument("--cell", metavar="N", type=int, help="only this run, from 0")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="print the runs, run nothing")
    what.add_argument("--array", action="store_true", help="print a Slurm job array for sbatch, run nothing")
    what.add_argument("--table", action="store_true", help="print the results of the finished runs, run nothing")
    parser.add_argument("--json", metavar="FILE", help="with --table: everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="with --table: everything as one page that needs no network")


def run(args: argparse.Namespace) -> int:
    from es_mpi.study.execute import array_script, run_cells
    from es_mpi.study.plan import read_study

    for flag, value in (("--json", args.json), ("--html", args.html)):
        if value and not args.table:
            raise UsageError("goes with --table", key=flag, value=value)
    study = read_study(args.study)
    if args.cell is not None and not 0 <= args.cell < len(study.cells):
        raise UsageError("no such run", value=args.cell, expected=f"0 to {len(study.cells) - 1}", key="--cell")
    cells = study.cells if args.cell is None else [study.cells[args.cell]]
    if args.list:
        states = [(str(i), str(cell.folder.path), _state(cell)) for i, cell in enumerate(study.cells) if cell in cells]
        print(table(("run", "folder", "state"), states))
    elif args.array:
        print(array_script(study), end="")
    elif args.table:
        return _results(args, study)
    else:
        return run_cells(study, cells, args.launcher, lambda text: print(f"study: {text}", file=sys.stderr, flush=True))
    return EXIT_OK


def _state(cell: Any) -> str:
    if cell.folder.summary.exists():
        return "finished"
    return "begun" if cell.folder.config.exists() else "to do"


def _results(args: argparse.Namespace, study: Any) -> int:
    from es_mpi.evaluation.page import page
    from es_mpi.study.results import study_results

    found, groups = study_results(study)
    print("\n\n".join(as_text(found)))
    if args.json:
        write_file(args.json, json.dumps(found, indent=2, allow_nan=False) + "\n", "--json")
    if args.html:
        write_file(args.html, page({**found, "layout": layout(found["study"])}, groups), "--html")
    return EXIT_OK


def as_text(found: Mapping[str, Any]) -> Iterator[str]:
    """The results in parts: the table of the points, then by task the differences to the first."""
    study = found["study"]
    yield (
        f"{study['name']}: {study['finished']} of {study['runs']} runs finished; [95 % over problems], (95 % over training "
        f"seeds); reward: of training, smoothed with {study['smoothing']}"
    )
    whole = layout(study)
    yield table(whole["header"], whole["rows"])
    for task, one in found["tasks"].items():
        rows = [
            (side if place == 0 else "", metric, difference(metric, d), f"{d['p_holm']:.2g}", _seeds_of(metric, d))
            for side, metrics in one["differences"].items()
            for place, (metric, d) in enumerate((m, d) for m, d in metrics.items() if m in study["rows"][0]["tasks"][task])
        ]
        header = (f"minus {found['names'][0]}", "metric", "[over problems]", "p (Holm)", "(over seeds)")
        notes = [f"note: {note}" for note in one["notes"]]
        yield "\n".join([f"{task}: {one['problems']} problems", *notes, table(header, rows)])


def layout(study: Mapping[str, Any]) -> dict[str, Any]:
    """The papers' table: a row a point, its cost, its training reward, and a column a task and metric."""
    first = study["rows"][0]
    columns = [(task, metric) for task, metrics in first["tasks"].items() for metric in metrics]
    means = list(first.get("average", {}))
    header = ["", "updates", "responses", "reward", *(f"{task} {metric}" for task, metric in columns)]
    rows = [
        [
            row["point"], *(f"{row[name]:,}" if name in row else "" for name in ("updates", "responses")), _reward(row),
            *(_score(metric, row["tasks"][task][metric]) for task, metric in columns),
            *(_score(metric, row["average"][metric]) for metric in means),
        ]
        for row in study["rows"]
    ]  # fmt: skip
    return {"header": header + [f"average {metric}" for metric in means], "rows": rows}


def _reward(row: Row) -> str:
    return f"{row['reward']['mean']:.4f}{_over('', row['reward'])}" if "reward" in row else ""


def _score(metric: str, one: Row) -> str:
    problems = f" [{100 * one['low']:.1f}, {100 * one['high']:.1f}]" if "low" in one else ""
    return f"{number(metric, one['mean']).removesuffix(' %')}{problems}{_over(metric, one)}"


def _over(metric: str, one: Row) -> str:
    """The interval over seeds, if there are several: of a score in percent."""
    if "over_seeds" not in one:
        return ""
    low, high = (one["over_seeds"][end] for end in ("low", "high"))
    return f" ({100 * low:.1f}, {100 * high:.1f})" if metric else f" ({low:.4f}, {high:.4f})"


def _seeds_of(metric: str, one: Row) -> str:
    return difference(metric, one["over_seeds"]) if "over_seeds" in one else "one seed"
