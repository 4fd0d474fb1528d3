"""A run from start to end. Each function here is what one command does, alone or on every rank of a launcher."""

from __future__ import annotations

from es_mpi.runner.commands import replay, resume, train

__all__ = ["replay", "resume", "train"]
