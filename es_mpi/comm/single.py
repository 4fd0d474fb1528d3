"""The `Comm` of one process without a launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import NoReturn

from es_mpi.comm.exchange import PeerComm
from es_mpi.comm.faults import last_words


class SingleComm(PeerComm):
    """Size 1: every exchange returns at once and sends nothing."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(rank=0, size=1, host=os.uname().nodename, deadline_s=deadline_s)

    def _post(self, peer: int, message: bytes) -> None:
        raise AssertionError(f"there is no rank {peer} to send to")

    def _unsent(self) -> set[int]:
        return set()

    def _take(self, peer: int) -> bytes | None:
        raise AssertionError(f"there is no rank {peer} to receive from")

    def abort(self, exit_code: int, reason: str, missing: Collection[int] = ()) -> NoReturn:
        last_words(self.rank, self.host, reason)
        sys.exit(exit_code)

    def close(self) -> None:
        pass
