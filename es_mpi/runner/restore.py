"""Rebuild theta of any recorded step: the newest usable checkpoint, then the journal's terms, digests checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.checkpoint.folder import find_newest
from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.checkpoint.weights import read_master
from es_mpi.errors import Divergence, UsageError
from es_mpi.params.store import MasterStore
from es_mpi.types import UpdateTerm

Record = Mapping[str, Any]


def restore(store: MasterStore, folder: RunFolder, records: Sequence[Record]) -> list[str]:
    """Bring `store` (holding the base model) to the last of `records`; returns notes on damaged checkpoints.

    Raises Divergence when the rebuilt weights are not those that the journal recorded.
    """
    newest, notes = find_newest(folder.path, at_most=len(records))
    start = 0
    if newest is not None:
        read_master(newest.path, store)
        start = newest.step
    replay_terms(store, records[start:])
    return notes


def rebuildable(folder: RunFolder, records: Sequence[Record]) -> Sequence[Record]:
    """The longest beginning of `records` whose weights can be had: up to a whole checkpoint, and from it on by terms.

    A step of a gradient phase has no terms: those after the newest checkpoint are lost, and a resumed run makes them again.
    """
    if all("terms" in record for record in records):
        return records
    newest, _ = find_newest(folder.path, at_most=len(records))
    end = newest.step if newest else 0
    while end < len(records) and "terms" in records[end]:
        end += 1
    return records[:end]


def replay_terms(store: MasterStore, records: Sequence[Record]) -> None:
    """Apply recorded updates in order. The digest is checked at the end, where it covers every update before it."""
    for record in records:
        if "terms" not in record:
            raise UsageError(
                f"step {record['step']} is of a gradient phase, which only a checkpoint holds", value=record["phase"],
                expected="a step up to which every update has terms, or a checkpoint in between",
            )
        store.update([UpdateTerm(int(seed, 16), coefficient) for seed, coefficient in record["terms"]])
    if records and store.digest() != records[-1]["digest"]:
        raise Divergence(
            f"step {records[-1]['step']} rebuilt from the journal has digest {store.digest()}, the run had "
            f"{records[-1]['digest']}: the base model, the journal or a checkpoint is not that of this run"
        )


def upto(records: Sequence[Record], step: int) -> Sequence[Record]:
    """The records of steps 1 to `step`. Raises UsageError when the run has not come so far."""
    if not 0 <= step <= len(records):
        raise UsageError("no such step", value=step, expected=f"0 to {len(records)}", key="--step")
    return records[:step]
