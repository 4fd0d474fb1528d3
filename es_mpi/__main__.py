"""`python -m es_mpi`: the same as the console script `es-mpi`."""

from __future__ import annotations

import sys

from es_mpi.cli import main

if __name__ == "__main__":
    sys.exit(main())
