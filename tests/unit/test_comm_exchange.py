"""The exchanges of a `Comm`: order, deadlines that name the missing, ranks in different places."""

from __future__ import annotations

import subprocess
import sys

import pytest
from thread_comm import run_threads

from es_mpi.comm import Comm, open_comm
from es_mpi.comm.faults import RanksMissing, name_ranks
from es_mpi.comm.single import SingleComm
from es_mpi.errors import EXIT_TRY_AGAIN, Divergence

SIZES = [1, 2, 3, 5]


def _payload(rank: int) -> bytes:
    return bytes([rank]) * (rank * 7)  # rank 0 sends nothing: lengths differ, and 0 is one of them


@pytest.mark.parametrize("size", SIZES)
def test_allgather_returns_payloads_of_any_length_in_rank_order(size: int) -> None:
    expected = [_payload(rank) for rank in range(size)]
    assert run_threads(size, lambda comm: comm.allgather("payloads", _payload(comm.rank))) == [expected] * size


@pytest.mark.parametrize("size", SIZES)
def test_gather_gives_rank_0_all_and_the_others_none(size: int) -> None:
    expected = [_payload(rank) for rank in range(size)]
    assert run_threads(size, lambda comm: comm.gather("payloads", _payload(comm.rank))) == [expected] + [None] * (size - 1)


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_from_any_root(size: int) -> None:
    def program(comm: Comm) -> list[bytes]:
        return [comm.broadcast("word", b"from %d" % root if comm.rank == root else None, root) for root in range(size)]

    assert run_threads(size, program) == [[b"from %d" % root for root in range(size)]] * size


def test_a_fast_rank_may_run_ahead_through_many_exchanges() -> None:
    def program(comm: Comm) -> bytes:
        for step in range(50):
            comm.broadcast(f"step {step}", b"%d" % step if comm.rank == 0 else None)  # rank 0 never waits
        return comm.broadcast("last", b"end" if comm.rank == 0 else None)

    assert run_threads(3, program) == [b"end"] * 3


def test_hosts_are_known_by_rank() -> None:
    assert run_threads(3, lambda comm: comm.hosts) == [["node0", "node0", "node1"]] * 3


def test_bytes_sent_counts_each_payload_once_and_no_header() -> None:
    def program(comm: Comm) -> int:
        before = comm.bytes_sent
        comm.allgather("scores", bytes(16))
        comm.gather("texts", bytes(100))
        comm.barrier("end")
        return comm.bytes_sent - before

    assert run_threads(3, program) == [16, 116, 116]
    assert run_threads(1, program) == [0]


def test_an_exchange_without_one_rank_ends_at_the_deadline_and_names_it() -> None:
    def program(comm: Comm) -> None:
        comm.deadline_s = 0.05
        if comm.rank != 2:
            comm.barrier("merge scores")

    first, second, absent = run_threads(3, program)
    assert absent is None
    for error in (first, second):
        assert isinstance(error, RanksMissing)
        assert error.ranks == (2,)
        assert error.exit_code == EXIT_TRY_AGAIN
        assert all(part in str(error) for part in ("'merge scores'", "0.05 s", "rank 2 on node1", "comm.deadline_s"))


def test_ranks_in_different_places_stop_with_both_names() -> None:
    names = ["merge scores", "digest"]
    for error in run_threads(2, lambda comm: comm.barrier(names[comm.rank])):
        assert isinstance(error, Divergence)
        assert all(part in str(error) for part in ("'merge scores'", "'digest'", "rank 0 on node0", "rank 1 on node0"))


def test_a_rank_one_exchange_ahead_is_noticed_although_the_names_are_equal() -> None:
    def program(comm: Comm) -> None:
        if comm.rank == 1:
            comm.gather("extra", b"")  # only sends: rank 1 does not wait here
        comm.barrier("step")

    error = run_threads(2, program, deadline_s=0.3)[0]
    assert isinstance(error, Divergence)
    assert "'extra'" in str(error)


def test_broadcast_without_a_payload_at_the_root_is_refused() -> None:
    with pytest.raises(ValueError, match="'config'"):
        SingleComm(1.0).broadcast("config", None)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([1], "rank 1 on a"),
        ([0, 1], "ranks 0-1 on a"),
        ([3, 0, 1, 5, 2], "ranks 0-2 on a, ranks 3,5 on b"),
    ],
)
def test_name_ranks(ranks: list[int], text: str) -> None:
    assert name_ranks(ranks, ["a", "a", "a", "b", "b", "b"]) == text


def test_without_a_launcher_there_is_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    comm = open_comm(1.0)
    assert (comm.rank, comm.size, comm.allgather("alone", b"x")) == (0, 1, [b"x"])
    comm.close()


def test_importing_every_pure_module_of_comm_loads_no_heavy_library() -> None:
    code = (
        "import sys, es_mpi, es_mpi.comm, es_mpi.comm.agree, es_mpi.comm.guard, es_mpi.comm.launcher\n"
        "print([name for name in ('mpi4py', 'torch', 'numpy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
