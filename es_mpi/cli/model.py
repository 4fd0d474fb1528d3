"""Make one of the models that need no hub, as a Hugging Face folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from es_mpi import embedded
from es_mpi.errors import EXIT_OK


def configure(parser: argparse.ArgumentParser) -> None:
    names = "; ".join(f"{name}: {description}" for name, description in embedded.NAMES.items())
    parser.add_argument("name", metavar="NAME", help=names)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    embedded.materialise(args.name, args.out)
    return EXIT_OK
