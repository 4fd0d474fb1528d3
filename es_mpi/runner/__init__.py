"""A run from start to end. Each function here is what one command does, alone or on every rank of a launcher."""

from __future__ import annotations

from es_mpi.runner.commands import examine, replay, resume, train

__all__ = ["examine", "replay", "resume", "train"]
