"""Measure: `step` is an update's time over generating the same tokens with the bare engine in the same process."""

from __future__ import annotations

import argparse

from es_mpi.cli.arguments import add_config, config_of


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["step"])
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    from es_mpi import bench

    return bench.step(config)
