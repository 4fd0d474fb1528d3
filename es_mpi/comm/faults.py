"""What goes wrong between ranks, in words that name ranks and hosts."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby

from es_mpi.errors import EsMpiError, TryAgain


def name_ranks(ranks: Iterable[int], hosts: Sequence[str]) -> str:
    """`"ranks 0-2 on node1, rank 3 on node2"`, with `hosts` by rank."""
    by_host: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_host.setdefault(hosts[rank], []).append(rank)
    return ", ".join(f"{'ranks' if len(group) > 1 else 'rank'} {_spans(group)} on {host}" for host, group in by_host.items())


def _spans(ranks: Sequence[int]) -> str:
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(ranks), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def last_words(rank: int, host: str, reason: str) -> None:
    """Flush what this rank has printed, then say on stderr which rank stops and why. Never fails: the end must come."""
    with contextlib.suppress(OSError, ValueError):  # a reader that is gone, a stream that is closed
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        print(f"rank {rank} on host {host}: {reason}", file=sys.stderr, flush=True)


class RanksMissing(TryAgain):
    """A named wait ended without `ranks`: they did not arrive in time, or cannot be reached."""

    def __init__(self, message: str, ranks: Iterable[int]) -> None:
        super().__init__(message)
        self.ranks = tuple(sorted(ranks))


class RanksLost(RanksMissing):
    """`ranks` died, and the rest may go on without them: see `Comm.shrink`. After it every exchange raises, until they do."""


class Agreed(EsMpiError):
    """Mixed into an error that every rank raises at the same point with the same text, so that the job ends in good order.

    `silent` is True on all ranks but one: the text is for that one to print.
    """

    silent = False


def agreed(kind: type[EsMpiError], message: str, *, silent: bool) -> Agreed:
    """An error of `kind`, to be caught as such, that every rank raises."""
    error: Agreed = type(f"Agreed{kind.__name__}", (Agreed, kind), {})(message)
    error.silent = silent
    return error
