"""Train as the config says, alone or as one rank of a job."""

from __future__ import annotations

import argparse

from es_mpi.cli.arguments import add_config, add_verbose


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_verbose(parser)


def run(args: argparse.Namespace) -> int:
    from es_mpi import runner

    return runner.train(args.config, args.overrides)
