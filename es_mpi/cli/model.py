"""Make one of the models that need no hub, as a Hugging Face folder."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from es_mpi import embedded
from es_mpi.errors import EXIT_OK


def configure(parser: argparse.ArgumentParser) -> None:
    names = "; ".join(f"{name}: {description}" for name, description in embedded.NAMES.items())
    parser.add_argument("name", metavar="NAME", help=names)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the unfinished folder is removed
    embedded.materialise(args.name, args.out)
    return EXIT_OK
