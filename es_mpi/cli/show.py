"""Where a run stands: progress, last reward, last failures, and the exact line that continues it."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from es_mpi.checkpoint.folder import checkpoints
from es_mpi.checkpoint.jsonl import Record, scan
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.cli.text import duration, pairs
from es_mpi.config import load_resolved
from es_mpi.errors import EXIT_OK

FAILURES_SHOWN = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path)


def run(args: argparse.Namespace) -> int:
    folder = RunFolder(args.run_dir)
    folder.require()
    print(pairs(status(folder)))
    return EXIT_OK


def status(folder: RunFolder) -> list[tuple[str, object]]:
    """The lines of `show`. A torn last line of journal or metrics is a step that does not exist."""
    config = load_resolved(folder.path)
    steps, _ = scan(folder.journal)
    total = sum(config.phases[name].updates for name in config.pipeline)
    last = steps[-1] if steps else {}
    done = int(last.get("step", 0))
    saved = checkpoints(folder.path)
    rows: list[tuple[str, object]] = [
        ("run", folder.path),
        ("phase", last.get("phase", f"before {config.pipeline[0]}")),
        ("step", f"{done} of {total}{_finished(folder)}"),
        ("reward", _reward(folder)),
        ("failures", _failures(steps)),
        ("checkpoint", saved[0].path if saved else "none yet"),
        ("logs", folder.logs / "latest"),
    ]
    if done < total or not folder.summary.exists():
        rows.append(("resume", resume_line(folder)))
    return rows


def resume_line(folder: RunFolder) -> str:
    """The command that continues the run, with as many ranks as its last attempt had."""
    ranks = len(list((folder.logs / "latest").glob("rank_*.log")))
    launcher = f"mpirun -n {ranks} " if ranks > 1 else ""
    return f"{launcher}es-mpi resume {shlex.quote(str(folder.path))}"


def _finished(folder: RunFolder) -> str:
    if not folder.summary.exists():
        return ""
    try:
        summary: dict[str, Any] = json.loads(folder.summary.read_text(encoding="utf-8"))
    except ValueError:
        return f", finished, but {folder.summary.name} cannot be read"
    return f", finished; the last attempt took {duration(summary['seconds'])}"


def _reward(folder: RunFolder) -> str:
    rewards = [row for row in scan(folder.metrics)[0] if row.get("reward/mean") is not None]
    if not rewards:
        return "none yet"
    spread = rewards[-1].get("reward/std")
    return f"{rewards[-1]['reward/mean']:.4f}" + (f", {spread:.4f} over members" if spread is not None else "")


def _failures(steps: Sequence[Record]) -> str:
    """The newest steps in which a member, or a response of a gradient phase, had no valid reward."""
    failed = [(step, sum(reward is None for reward in found), len(found)) for step in steps for found in [_rewards(step)]]
    lines = [f"step {step['step']}: {count} of {size} {_rewarded(step)}" for step, count, size in failed if count]
    older = f" (and in {len(lines) - FAILURES_SHOWN} steps before)" if len(lines) > FAILURES_SHOWN else ""
    return "; ".join(lines[-FAILURES_SHOWN:]) + older if lines else "none"


def _rewarded(step: Record) -> str:
    return "members" if "members" in step else "responses"


def _rewards(step: Record) -> list[float | None]:
    """What was rewarded in a step: its members, or the responses of its groups."""
    if "members" in step:
        return [reward for _, reward, _ in step["members"]]
    return [reward for group in step["rewards"] for reward in group]
