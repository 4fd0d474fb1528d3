"""Rebuild the weights of a step from the base model and the journal, check their digest, write them as a model folder."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR")
    parser.add_argument("--step", metavar="N", type=int, required=True, help="updates to replay; 0 is the base model")
    parser.add_argument("--out", metavar="DIR", required=True)


def run(args: argparse.Namespace) -> int:
    from es_mpi import runner

    return runner.replay(args.run_dir, args.step, args.out)
