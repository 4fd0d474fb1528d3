"""`comm_merge.py MEMBERS`: every rank scores its share and all merge. Rank 0 prints all bytes sent and the median seconds."""

from __future__ import annotations

import statistics
import sys
import time

from es_mpi.comm import open_comm
from es_mpi.comm.agree import agree_fields, merge_scores, sum_tallies
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.port import Comm
from es_mpi.types import MemberScore

ROUNDS = 5


def work(comm: Comm, members: int) -> int:
    mine = [MemberScore(member, member / 8) for member in range(comm.rank, members, comm.size)]
    seconds = []
    for _ in range(ROUNDS):
        comm.barrier("begin")
        before, began = comm.bytes_sent, time.perf_counter()
        table = merge_scores(comm, members, mine)
        seconds.append(time.perf_counter() - began)
        sent = comm.bytes_sent - before
        assert [score.reward for score in table] == [member / 8 for member in range(members)]
    agree_fields(comm, "table", {"bits": repr(table)})
    sent = int(sum_tallies(comm, {"bytes": sent})["bytes"])
    if comm.rank == 0:
        print(sent, statistics.median(seconds), flush=True)
    return 0


if __name__ == "__main__":
    comm = open_comm()
    raise SystemExit(run_guarded(comm, lambda: work(comm, int(sys.argv[1]))))
