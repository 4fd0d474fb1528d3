"""Every exchange over real MPI, with odd lengths and megabytes. Each rank prints `rank r: ok`."""

from __future__ import annotations

from es_mpi.comm import open_comm
from es_mpi.comm.agree import agree_fields, any_rank, merge_scores, sum_tallies
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.port import Comm
from es_mpi.types import MemberScore, Status

N_MEMBERS = 7  # divides by no number of ranks used here
EAGER_AND_RENDEZVOUS = (0, 1, 4095, 65537, 3_000_001)  # MPI sends short messages at once, long ones when the receiver is ready


def odd_bytes(rank: int, length: int) -> bytes:
    return bytes([rank + 1]) * (length + rank * (length > 0))


def work(comm: Comm) -> int:
    assert comm.hosts == [comm.host] * comm.size
    for length in EAGER_AND_RENDEZVOUS:
        expected = [odd_bytes(rank, length) for rank in range(comm.size)]
        assert comm.allgather("all", odd_bytes(comm.rank, length)) == expected
        assert comm.gather("texts", odd_bytes(comm.rank, length)) == (expected if comm.rank == 0 else None)
        for root in range(comm.size):
            assert comm.broadcast("one", expected[root] if comm.rank == root else None, root) == expected[root]
    before = comm.bytes_sent
    rewards = [float("nan") if member == 1 else member / 8 for member in range(N_MEMBERS)]
    table = merge_scores(comm, N_MEMBERS, [MemberScore(m, rewards[m]) for m in range(comm.rank, N_MEMBERS, comm.size)])
    assert [s.status for s in table] == [Status.FAILED if m == 1 else Status.OK for m in range(N_MEMBERS)]
    assert [s.reward for s in table if s.member != 1] == [rewards[m] for m in range(N_MEMBERS) if m != 1]
    assert comm.bytes_sent - before <= 16 * len(range(comm.rank, N_MEMBERS, comm.size))
    assert sum_tallies(comm, {"ranks": 1.0}) == {"ranks": comm.size}
    assert any_rank(comm, "stop", comm.rank == comm.size - 1)
    agree_fields(comm, "table", {"bits": repr(table)})
    print(f"rank {comm.rank}: ok", flush=True)
    return 0


if __name__ == "__main__":
    comm = open_comm()
    raise SystemExit(run_guarded(comm, lambda: work(comm)))
