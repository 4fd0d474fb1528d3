"""Measure, as ratios within one process.

`step` is an update's time over generating the same tokens with the bare engine; `noise` is the noise library beside the
memory limit, bare Philox and the usual way with torch.
"""

from __future__ import annotations

import argparse

from es_mpi.cli.arguments import add_config, config_of
from es_mpi.errors import UsageError

UNITS = {"K": 10**3, "M": 10**6, "B": 10**9}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["step", "noise"])
    add_config(parser, required=False)
    parser.add_argument("--params", type=count, help="noise: parameters of the model, e.g. 135M (default)")
    parser.add_argument("--members", type=int, help="noise: members of an update (default 32)")
    parser.add_argument("--threads", type=int, help="noise: threads (default 1)")
    parser.add_argument("--json", action="store_true", help="noise: print JSON")


def run(args: argparse.Namespace) -> int:
    if args.what == "step":
        return _step(args)
    if args.config or args.overrides:
        raise UsageError("bench noise takes no config", value=args.config or args.overrides[0])
    from es_mpi.bench import noise

    parameters, members, threads = (
        default if value is None else value
        for value, default in ((args.params, count("135M")), (args.members, 32), (args.threads, 1))
    )
    return noise.run(parameters, members, threads, args.json)


def count(text: str) -> int:
    """`135M` and the like as a number."""
    unit = UNITS.get(text[-1:].upper(), 1)
    number = float(text[:-1]) * unit if unit > 1 else int(text)
    if not number < 2**63:
        raise ValueError
    return int(number)


def _step(args: argparse.Namespace) -> int:
    if args.config is None or args.json or {args.params, args.members, args.threads} != {None}:
        raise UsageError("bench step takes a config and overrides", expected="es-mpi bench step CONFIG [key=value ...]")
    config = config_of(args)
    from es_mpi.bench import step

    return step.run(config)
