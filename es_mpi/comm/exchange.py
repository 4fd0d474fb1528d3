"""The exchanges of a `Comm`, built from messages between pairs of ranks.

MPI's own collectives do not say who is late, have no deadline, and in most libraries spin on a core while they wait. Here every
rank sends to and receives from each peer directly, so it knows who has not arrived; and a waiting rank sleeps.

Cost for P ranks: in `allgather` and `barrier` every rank sends and receives P - 1 messages; in `gather` and `broadcast` one rank
handles P - 1 and each other one. Every message carries 10 bytes and the wait's name besides the payload. Payloads are tables of
scalars: 1024 members on 64 ranks make 63 messages of 256 bytes on each rank.
"""

from __future__ import annotations

import os
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from es_mpi.comm.faults import RanksMissing, name_ranks
from es_mpi.errors import Divergence

_HEADER = struct.Struct("<QH")  # sequence number of the exchange, bytes of its name
_NAP_SHARE = 0.1  # a nap is this share of the time already waited: it delays an answer by a tenth at most
_LONGEST_NAP_S = 0.005  # and a rank that waits long wakes 200 times a second


class PeerComm(ABC):
    """All of `Comm` but its ends, over three transport steps: post a message, ask what is unsent, take a message.

    Messages between two ranks must arrive in the order they were posted. Not thread-safe: one thread makes all the calls.
    """

    def __init__(self, rank: int, size: int, host: str, deadline_s: float) -> None:
        self.host, self.deadline_s = host, deadline_s
        self.tolerant = False
        self.bytes_sent = 0
        self._launcher = os.getppid()
        self._begin(rank, size, ["a host not yet known"] * size)
        self.hosts = [name.decode() for name in self.allgather("host names", host.encode())]

    def _begin(self, rank: int, size: int, hosts: list[str]) -> None:
        """Count ranks and exchanges anew."""
        self.rank, self.size, self.hosts = rank, size, hosts
        self._sequence = 0
        self._peers = frozenset(range(size)) - {rank}
        self._early: dict[int, bytes] = {}

    @abstractmethod
    def _post(self, peer: int, message: bytes) -> None:
        """Start to send; never wait."""

    @abstractmethod
    def _unsent(self) -> set[int]:
        """Peers that have not yet accepted everything posted to them."""

    @abstractmethod
    def _take(self, peer: int) -> bytes | None:
        """The next message of `peer` once it is here as a whole, else None; never wait."""

    def allgather(self, what: str, payload: bytes) -> list[bytes]:
        received = self._exchange(what, payload, to=self._peers, sources=self._peers)
        received[self.rank] = payload
        return [received[rank] for rank in range(self.size)]

    def gather(self, what: str, payload: bytes) -> list[bytes] | None:
        if self.rank != 0:
            self._exchange(what, payload, to=(0,), sources=())
            return None
        received = self._exchange(what, b"", to=(), sources=self._peers)
        return [payload, *(received[rank] for rank in range(1, self.size))]

    def broadcast(self, what: str, payload: bytes | None, root: int = 0) -> bytes:
        if self.rank != root:
            return self._exchange(what, b"", to=(), sources=(root,))[root]
        if payload is None:
            raise ValueError(f"broadcast {what!r}: the root, rank {root}, has no payload")
        self._exchange(what, payload, to=self._peers, sources=())
        return payload

    def barrier(self, what: str) -> None:
        self.allgather(what, b"")

    def early(self) -> list[bytes]:
        for peer in self._peers - self._early.keys():
            arrived = self._take(peer)
            if arrived is not None:
                self._early[peer] = arrived
        return [_open(message)[2] for message in self._early.values()]

    def shrink(self) -> str:
        raise AssertionError("no exchange of this kind raises RanksLost")

    def _exchange(self, what: str, payload: bytes, to: Iterable[int], sources: Iterable[int]) -> dict[int, bytes]:
        """Send `payload` to the ranks `to` and return the payloads of `sources`, all within the deadline."""
        self._sequence += 1
        start = time.monotonic()
        message = self._seal(what, payload)
        for peer in to:
            self._post(peer, message)
        if to:
            self.bytes_sent += len(payload)
        received: dict[int, bytes] = {}
        awaited = set(sources)
        while True:
            for peer in awaited - received.keys():
                arrived = self._early.pop(peer, None) or self._take(peer)
                if arrived is not None:
                    received[peer] = self._unseal(what, peer, arrived)
            missing = (awaited - received.keys()) | self._unsent()
            if not missing:
                return received
            waited = time.monotonic() - start
            if waited > self.deadline_s:
                raise self._late(what, missing)
            if os.getppid() != self._launcher:  # it lost a host, and has left without this rank
                raise RanksMissing(f"the launcher ended while {what!r} waited for {name_ranks(missing, self.hosts)}", missing)
            time.sleep(min(waited * _NAP_SHARE, _LONGEST_NAP_S))

    def _seal(self, what: str, payload: bytes) -> bytes:
        name = what.encode()
        return _HEADER.pack(self._sequence, len(name)) + name + payload

    def _unseal(self, what: str, peer: int, message: bytes) -> bytes:
        sequence, name, payload = _open(message)
        if (sequence, name) != (self._sequence, what):
            raise Divergence(
                f"ranks are in different places: {name_ranks([self.rank], self.hosts)} is in {what!r} "
                f"(exchange {self._sequence}), {name_ranks([peer], self.hosts)} in {name!r} (exchange {sequence})"
            )
        return payload

    def _late(self, what: str, missing: set[int]) -> RanksMissing:
        return RanksMissing(
            f"comm.deadline_s: {what!r} waited {self.deadline_s:g} s in vain for {name_ranks(missing, self.hosts)}\n"
            "  remedy    see what those ranks last wrote to their logs; raise comm.deadline_s if they only needed longer; "
            "es-mpi resume continues the run",
            missing,
        )


def _open(message: bytes) -> tuple[int, str, bytes]:
    """Sequence number, name of the wait, payload."""
    sequence, length = _HEADER.unpack_from(message)
    body = _HEADER.size + length
    return sequence, message[_HEADER.size : body].decode(), message[body:]
