"""The port through which ranks meet: four exchanges, each a named wait with a deadline."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn, Protocol


class Comm(Protocol):
    """The ranks of one job. All ranks call the same exchanges in the same order with the same `what`.

    `what` names the wait ("merge scores") and travels with every message: ranks that are in different places stop with
    `Divergence` and both names. An exchange that is not complete after `deadline_s` raises `RanksMissing` (exit code 75),
    which names the wait, the seconds, and the ranks and hosts that did not arrive. The clock starts anew with each exchange.

    rank, size   this rank (0 <= rank < size) and the number of ranks
    host, hosts  this rank's host name, and every rank's by rank
    deadline_s   seconds an exchange may last; may be set at any time, and counts from the next exchange on
    tolerant     whether a rank that dies costs no more than itself: an exchange then raises `RanksLost` on every other rank
    bytes_sent   payload bytes this rank has handed to other ranks so far, each payload counted once, headers excluded
    """

    rank: int
    size: int
    host: str
    hosts: list[str]
    deadline_s: float
    tolerant: bool
    bytes_sent: int

    def allgather(self, what: str, payload: bytes) -> list[bytes]:
        """Every rank's payload, in rank order, on every rank. Payloads may differ in length."""
        ...

    def gather(self, what: str, payload: bytes) -> list[bytes] | None:
        """Every rank's payload, in rank order, on rank 0; None elsewhere. Meant for megabytes."""
        ...

    def broadcast(self, what: str, payload: bytes | None, root: int = 0) -> bytes:
        """`root`'s payload on every rank. The other ranks pass None."""
        ...

    def barrier(self, what: str) -> None:
        """Return when every rank has arrived."""
        ...

    def early(self) -> list[bytes]:
        """Payloads of the next exchange that other ranks have sent already, as far as they are here. Raises as exchanges do."""
        ...

    def shrink(self) -> str:
        """After `RanksLost`, on all ranks that are left: close ranks, and name those that are gone by their former numbers.

        `rank`, `size` and `hosts` are new afterwards. Raises `RanksMissing` when too few are left to be sure that the others
        are dead and not merely cut off.
        """
        ...

    def abort(self, exit_code: int, reason: str, missing: Collection[int] = ()) -> NoReturn:
        """Print `rank r on host h: reason` and end the whole job, whatever the other ranks are doing.

        `missing` are the ranks that this one waited for in vain, if that is the reason: the rest found the same.
        """
        ...

    def close(self) -> None:
        """The orderly end: wait for every rank, then leave. No exchange may follow."""
        ...
