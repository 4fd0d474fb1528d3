"""Keep only the largest changes of training: a model folder that loads like any other, and what it kept of the change."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from es_mpi.cli.text import pairs
from es_mpi.errors import EXIT_OK, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="the model before training: a folder or a hub id")
    parser.add_argument("model", metavar="MODEL", help="after: a folder, a hub id, a run folder or one of its checkpoints")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--sparsity", metavar="S", type=float, help="set back this share (0 to 1) of the weights that moved")
    how.add_argument("--threshold", metavar="T", type=float, help="set back weights that moved by at most T")
    parser.add_argument("--step", metavar="N", type=int, help="of a run: after this update (default: its newest checkpoint)")
    parser.add_argument("--out", metavar="DIR", required=True, help="new model folder; its prune.json says what was done")
    parser.add_argument("--json", action="store_true", help="print prune.json")


def run(args: argparse.Namespace) -> int:
    from es_mpi.analysis.drift import cuts
    from es_mpi.analysis.gaussian import norm_kept
    from es_mpi.analysis.prune import threshold_for, write_pruned
    from es_mpi.checkpoint.files import new_folder
    from es_mpi.checkpoint.folder import require_space
    from es_mpi.checkpoint.run_folder import write_json
    from es_mpi.params.hf_folder import folder_bytes
    from es_mpi.runner.sources import open_source, require_base

    _check(args)
    source = open_source(args.base)
    base, model = source.weights, open_source(args.model, args.step)
    require_base(base, model)
    with new_folder(Path(args.out), key="--out") as partial:
        require_space(partial, folder_bytes(base.layout), key="--out")
        tau = threshold_for(base, model.weights, args.sparsity) if args.threshold is None else args.threshold
        cut = cuts(base, model.weights, [tau])[0]
        write_pruned(base, model.weights, tau, partial)
        facts: dict[str, Any] = {
            "base": source.name, "model": model.name, "step": model.step, "threshold": tau, "sparsity": cut.sparsity,
            "norm2_kept": cut.kept, "norm2_kept_by_a_normal": norm_kept(cut.sparsity),
        }  # fmt: skip
        write_json(partial / "prune.json", facts)
    print(json.dumps(facts, indent=2) if args.json else _text(args, facts))
    return EXIT_OK


def _check(args: argparse.Namespace) -> None:
    if args.sparsity is not None and not 0 <= args.sparsity < 1:
        raise UsageError("out of range", value=args.sparsity, expected="0 or more and below 1", key="--sparsity")
    if args.threshold is not None and not 0 <= args.threshold < float("inf"):
        raise UsageError("out of range", value=args.threshold, expected="0 or more", key="--threshold")


def _text(args: argparse.Namespace, facts: dict[str, Any]) -> str:
    normal = f"an isotropic normal keeps {100 * facts['norm2_kept_by_a_normal']:.2f} % at this sparsity"
    return pairs(
        [
            ("threshold", f"{facts['threshold']:.6g}"),
            ("sparsity", f"{100 * facts['sparsity']:.3f} % of the weights that moved are set back"),
            ("norm^2 kept", f"{100 * facts['norm2_kept']:.2f} %  ({normal})"),
            ("written to", args.out),
        ]
    )
