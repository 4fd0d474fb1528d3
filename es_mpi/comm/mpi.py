"""The `Comm` over MPI: the only file that imports mpi4py, and itself imported only by `open_comm` under a launcher.

MPI is initialised and finalised here, never by mpi4py: its own finaliser at interpreter exit would wait for ever when one rank
leaves early.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator
from typing import NoReturn

import mpi4py

from es_mpi.comm.exchange import PeerComm
from es_mpi.comm.faults import RanksLost, RanksMissing, last_words, name_ranks
from es_mpi.comm.launcher import Launch, check_world
from es_mpi.errors import EXIT_TRY_AGAIN, UsageError

mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402  (reads the two settings)

_STDERR = 2
_READING_S = 0.2  # a launcher drops what it has not yet read of stderr when the abort reaches it by another way (seen with MPICH)
_TURN_S, _LONGEST_TURN_S = 0.5, 10.0  # between the MPI_Abort of two ranks: the launcher has ended the second one by then
_HEARSAY_S = 2.0
_ABORT_S = 30.0
_LOOK_S = 2.0
_LOSSES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)  # error classes of ULFM
_TAG = 1  # one tag: MPI keeps the order of messages between two ranks, and the header tells them apart


def open_mpi(launch: Launch, deadline_s: float) -> MpiComm:
    """Initialise MPI and return the communicator of all ranks. Raises UsageError when MPI sees fewer ranks than `launch`."""
    with _ends_in(deadline_s):
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_FUNNELED)  # the engine and the graders have threads; only the main thread calls MPI
        try:
            check_world(launch, MPI.COMM_WORLD.Get_size())
        except UsageError:
            MPI.Finalize()
            raise
        comm = MPI.COMM_WORLD.Dup()
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return MpiComm(comm, deadline_s)


class MpiComm(PeerComm):
    """Ranks that exchange non-blocking messages over `comm`, which no other code may use."""

    def __init__(self, comm: MPI.Intracomm, deadline_s: float) -> None:
        self._comm = comm
        # Requests under way stay referenced here, also when an exchange ends in an error: MPI still uses their buffers.
        self._outbox: list[tuple[int, MPI.Request]] = []
        self._inbox: dict[int, tuple[MPI.Request, bytearray]] = {}
        self._cancelled: list[object] = []  # what was under way when ranks were lost: MPI may still look at it
        super().__init__(comm.Get_rank(), comm.Get_size(), socket.gethostname(), deadline_s)
        threading.Thread(target=self._leave_with_launcher, daemon=True).start()
        self.tolerant = self._hears_of_deaths = _survives_deaths()

    def _post(self, peer: int, message: bytes) -> None:
        with self._naming(peer):
            self._outbox.append((peer, self._comm.Isend([message, MPI.BYTE], dest=peer, tag=_TAG)))

    def _unsent(self) -> set[int]:
        self._outbox = [(peer, request) for peer, request in self._outbox if not self._done(peer, request)]
        return {peer for peer, _ in self._outbox}

    def _take(self, peer: int) -> bytes | None:
        if peer not in self._inbox and not self._start_receive(peer):
            return None
        request, buffer = self._inbox[peer]
        if not self._done(peer, request):
            return None
        del self._inbox[peer]
        return bytes(buffer)

    def _start_receive(self, peer: int) -> bool:
        status = MPI.Status()
        with self._naming(peer):
            message = self._comm.Improbe(source=peer, tag=_TAG, status=status)
            if message is None:
                return False
            buffer = bytearray(status.Get_count(MPI.BYTE))
            self._inbox[peer] = (message.Irecv([buffer, MPI.BYTE]), buffer)
            return True

    def _done(self, peer: int, request: MPI.Request) -> bool:
        with self._naming(peer):
            return request.Test()

    @contextlib.contextmanager
    def _naming(self, peer: int) -> Iterator[None]:
        try:
            yield
        except MPI.Exception as error:
            kind = RanksLost if self.tolerant and error.Get_error_class() in _LOSSES else RanksMissing
            raise kind(f"{name_ranks([peer], self.hosts)} cannot be reached: {error}", [peer]) from error

    def shrink(self) -> str:
        with _ends_in(self.deadline_s):
            self._comm.Revoke()  # wakes those that wait for somebody who has seen the loss
            comm = self._comm.Shrink()
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        old, new = self._comm.Get_group(), comm.Get_group()
        kept = list(new.Translate_ranks(list(range(comm.Get_size())), old))
        lost, here = set(range(self.size)) - set(kept), {self.hosts[rank] for rank in kept}
        names = name_ranks(lost, self.hosts)
        self._cancelled += [self._comm, self._outbox, self._inbox]
        self._comm, self._outbox, self._inbox = comm, [], {}
        if any(self.hosts[rank] not in here for rank in lost) and 2 * len(kept) <= self.size:
            raise RanksMissing(f"{names} cannot be reached, nor half of all ranks: these here may be the ones cut off", lost)
        self._begin(comm.Get_rank(), comm.Get_size(), [self.hosts[rank] for rank in kept])
        return names

    def abort(self, exit_code: int, reason: str, missing: Collection[int] = ()) -> NoReturn:
        last_words(self.rank, self.host, reason)
        time.sleep(_READING_S)
        if self._hears_of_deaths:
            self._wait_for_turn(missing)
        with _ends_in(_ABORT_S):
            MPI.COMM_WORLD.Abort(exit_code)
        os._exit(exit_code)  # should a broken MPI return

    def _leave_with_launcher(self) -> None:
        """End this process once its launcher has gone, which may forget ranks (seen with ULFM) that are far from any exchange."""
        while os.getppid() == self._launcher:
            time.sleep(_LOOK_S)
        last_words(self.rank, self.host, "the launcher ended without this rank")
        os._exit(EXIT_TRY_AGAIN)

    def _wait_for_turn(self, missing: Collection[int]) -> None:
        """Let the lowest rank that has to end the job do so, and the next one only where that did not.

        After two MPI_Abort at once under Open MPI 5 with ULFM, `mpirun` waited for ever or ended with 0 in one of five trials;
        after one it never did.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # how the launcher ends ranks
        before = sum(rank not in missing for rank in range(self.rank))
        hearsay = _HEARSAY_S if missing else 0.0  # the missing rank may be about to end the job itself
        time.sleep(hearsay + min(before * _TURN_S, _LONGEST_TURN_S))

    def close(self) -> None:
        try:
            self.barrier("end of the job")
        except RanksLost:  # the work is done, and needs nobody any more
            self._comm.Revoke()
            return
        if self._cancelled:  # Open MPI's MPI_Finalize was seen to wait for ever after a death, in one of a hundred runs
            return
        with _ends_in(self.deadline_s):
            self._comm.Free()
            MPI.Finalize()


def _survives_deaths() -> bool:
    """Whether this MPI reports dead ranks (ULFM) instead of ending the job. Many have the calls, in few do they work: try one."""
    trial = MPI.COMM_SELF.Dup()  # of this rank alone: the revocation of a shared one could reach a rank that has it not yet
    trial.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        trial.Revoke()
        trial.Improbe(source=0, tag=_TAG)
    except MPI.Exception as error:
        return bool(error.Get_error_class() == MPI.ERR_REVOKED)
    except NotImplementedError:
        return False
    finally:
        trial.Free()
    return False


@contextlib.contextmanager
def _ends_in(deadline_s: float) -> Iterator[None]:
    """End the process (exit status 1, with the stack) if MPI_Init or MPI_Finalize lasts longer.

    Both wait for the other ranks while they hold the interpreter lock, so neither a Python thread nor a signal handler could.
    """
    faulthandler.dump_traceback_later(deadline_s, exit=True, file=_STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
