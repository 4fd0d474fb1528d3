"""A process group of torch over the ranks of a `Comm`: up while a gradient phase is open, for the sums of gradients only.

It is an object of its own, never torch's default group, which vLLM makes for itself inside every rank.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from es_mpi.comm.port import Comm
from es_mpi.errors import TryAgain

LOOPBACK = "127.0.0.1"
CHUNK = 1 << 24  # elements of one message: large enough for the network, small enough to need little memory


class TorchGroup:
    """Gloo for tensors on a CPU, NCCL for those of a GPU. Every rank calls the same sums in the same order."""

    def __init__(self, comm: Comm, device: str) -> None:
        self._comm, self.size = comm, comm.size
        if comm.size == 1:
            return
        wait = timedelta(seconds=comm.deadline_s)
        host = LOOPBACK if len(set(comm.hosts)) == 1 else comm.hosts[0]
        if comm.rank == 0:  # port 0: the system chooses a free one, which the others are told
            self._store = dist.TCPStore(host, 0, None, is_master=True, timeout=wait, wait_for_workers=False)
        address = comm.broadcast("address of the torch group", f"{self._store.port}".encode() if comm.rank == 0 else None)
        if comm.rank != 0:
            self._store = dist.TCPStore(host, int(address), None, is_master=False, timeout=wait)
        backend = dist.ProcessGroupNCCL if device == "cuda" else dist.ProcessGroupGloo
        self._group = backend(self._store, comm.rank, comm.size, wait)

    def sum_in_place(self, flat: torch.Tensor) -> None:
        """`flat` [elements] becomes the sum over ranks, the same bits on every rank. Raises TryAgain when a rank is lost."""
        if self.size == 1:
            return
        try:
            for part in flat.split(CHUNK):
                self._group.allreduce([part]).wait()
        except RuntimeError as error:  # torch knows that a connection broke, not whose
            self._comm.barrier("ranks left after a sum of gradients that failed")  # names those that are lost
            raise TryAgain(f"the sum of gradients failed, though every rank is there: {error}") from error

    def close(self) -> None:
        """Let go of sockets and threads. The ranks must have met after the last sum."""
        if self.size > 1:
            del self._group, self._store
