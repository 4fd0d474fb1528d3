"""Arguments that several commands take. Overrides (key=value) are collected by `main` into `args.overrides`."""

from __future__ import annotations

import argparse

from es_mpi.config import Config, load_config


def add_config(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "config",
        metavar="CONFIG",
        nargs=None if required else "?",
        help="a YAML file; key=value after it overrides it by dot path",
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verbose",
        dest="overrides",
        action="append_const",
        const="engine.verbose=true",
        default=[],
        help="show the engine's own log",
    )


def config_of(args: argparse.Namespace) -> Config:
    return load_config(args.config, args.overrides)
