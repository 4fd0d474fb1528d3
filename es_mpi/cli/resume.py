"""Continue a run from its newest checkpoint and journal. Only keys that cannot change results may differ, unless forced."""

from __future__ import annotations

import argparse

from es_mpi.cli.arguments import add_verbose


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR")
    add_verbose(parser)
    parser.add_argument(
        "--force", metavar="KEY", action="append", default=[], help="let this key change the results from here on"
    )


def run(args: argparse.Namespace) -> int:
    from es_mpi import runner

    return runner.resume(args.run_dir, args.overrides, args.force)
