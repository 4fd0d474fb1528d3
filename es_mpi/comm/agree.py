"""What ranks decide together: errors, equal values, the table of scores, sums. Pure functions over a `Comm`."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from es_mpi.comm.faults import agreed, name_ranks
from es_mpi.comm.port import Comm
from es_mpi.errors import EsMpiError, UsageError
from es_mpi.types import MemberScore, Status

_RECORD = struct.Struct("<iid")  # member, status, reward: the 16 bytes a member costs, whatever the model's size
_ABSENT = "(absent)"
_YES = b"1"


def agree_errors(comm: Comm, error: UsageError | None) -> None:
    """End a start-up stage: return if no rank met an error, else raise the same UsageError (agreed) on every rank.

    The message holds each distinct text once with the ranks and hosts it came from; `silent` is True on all ranks but 0.
    """
    texts = [text.decode() for text in comm.allgather("errors at start", str(error or "").encode())]
    by_text = _ranks_by_value(texts)
    by_text.pop("", None)
    if not by_text:
        return
    found = [text if comm.size == 1 else f"{name_ranks(ranks, comm.hosts)}: {text}" for text, ranks in by_text.items()]
    raise agreed(UsageError, "\n".join(found), silent=comm.rank != 0)


def agree_fields(comm: Comm, what: str, fields: Mapping[str, str], error: type[EsMpiError] = UsageError) -> None:
    """Return if all ranks hold equal `fields`, else raise `error` (agreed) on every rank.

    The message names each field that differs, its values, and the ranks that hold them.
    """
    by_rank = _share(comm, f"agree on {what}", fields)
    lines = [f"{what}: ranks hold different values"]
    for name in sorted(set().union(*by_rank)):
        by_value = _ranks_by_value([held.get(name, _ABSENT) for held in by_rank])
        if len(by_value) > 1:
            lines += [f"  {name} = {value} on {name_ranks(ranks, comm.hosts)}" for value, ranks in by_value.items()]
    if len(lines) > 1:
        raise agreed(error, "\n".join(lines), silent=comm.rank != 0)


def merge_scores(comm: Comm, n_members: int, mine: Sequence[MemberScore]) -> list[MemberScore]:
    """The scores of all members 0..n_members-1 in order, the same on every rank, from each rank's own.

    A member that nobody scored is MISSING, one whose reward is not finite is FAILED; both carry a NaN reward.
    Raises EsMpiError when a member was scored twice or does not exist.
    """
    records = b"".join(_RECORD.pack(score.member, score.status, score.reward) for score in mine)
    table = [MemberScore(member, math.nan, Status.MISSING) for member in range(n_members)]
    scored_by: dict[int, int] = {}
    for rank, part in enumerate(comm.allgather(f"merge scores of {n_members} members", records)):
        for member, status, reward in _RECORD.iter_unpack(part):
            if not 0 <= member < n_members:
                raise EsMpiError(f"member {member} of {n_members} was scored by {name_ranks([rank], comm.hosts)}")
            if member in scored_by:
                raise EsMpiError(f"member {member} was scored twice: by rank {scored_by[member]} and by rank {rank}")
            scored_by[member] = rank
            table[member] = _valid(member, reward, Status(status))
    return table


def pool_scores(comm: Comm, known: Mapping[int, MemberScore]) -> dict[int, MemberScore]:
    """What any rank knows of the members' scores, by member, on every rank. Ranks may know the same ones."""
    records = b"".join(_RECORD.pack(score.member, score.status, score.reward) for score in known.values())
    pooled: dict[int, MemberScore] = {}
    for part in comm.allgather("pool scores", records):
        for member, status, reward in _RECORD.iter_unpack(part):
            pooled[member] = _valid(member, reward, Status(status))
    return pooled


def _valid(member: int, reward: float, status: Status) -> MemberScore:
    if status is Status.OK and math.isfinite(reward):
        return MemberScore(member, reward)
    return MemberScore(member, math.nan, Status.FAILED if status is Status.OK else status)


def sum_tallies(comm: Comm, tally: Mapping[str, float]) -> dict[str, float]:
    """The sum over ranks of each name's value (0 on a rank without it), correctly rounded: the same bits on every rank."""
    by_rank = _share(comm, "sum tallies", tally)
    return {name: math.fsum(held.get(name, 0.0) for held in by_rank) for name in sorted(set().union(*by_rank))}


def any_rank(comm: Comm, what: str, flag: bool) -> bool:
    """True on every rank if `flag` is True on any."""
    return _YES in comm.allgather(what, _YES if flag else b"0")


def already_yes(comm: Comm) -> bool:
    """Whether another rank has said True to the `any_rank` that comes next. A look, no wait."""
    return _YES in comm.early()


def _share(comm: Comm, what: str, held: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every rank's mapping, in rank order. JSON writes a float64 so that it reads back exactly, NaN included."""
    return [json.loads(text) for text in comm.allgather(what, json.dumps(dict(held)).encode())]


def _ranks_by_value(values: Sequence[str]) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    return ranks
