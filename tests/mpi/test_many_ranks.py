"""More members and ranks than a test machine has cores: what an update costs, and that it is the update of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from mpi_launch import run_ranks
from runs import es_mpi, journal, toy_config

pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parent / "programs"
RANKS, MEMBERS = 64, 1024
RECORD = 16  # bytes of a member's score


def test_a_member_costs_16_bytes() -> None:
    done = run_ranks(RANKS, [PROGRAMS / "comm_merge.py", str(MEMBERS)], 400)
    assert done.returncode == 0, done.stderr
    sent, seconds = done.stdout.split()
    print(f"merge of {MEMBERS} members on {RANKS} ranks: {int(sent) / MEMBERS:g} bytes a member, {float(seconds):.3f} s")
    assert int(sent) == RECORD * MEMBERS


def test_the_update_is_that_of_one_process(tmp_path: Path) -> None:
    phase = {"kind": "es", "updates": 2, "population": MEMBERS, "sigma": 0.3, "alpha": 0.3}
    config = toy_config(tmp_path, phases={"warm": phase}, eval={"before": False, "after": False}, grading={"workers": 0})
    for ranks in (1, RANKS):
        done = es_mpi(["train", config, f"run.name=r{ranks}"], ranks=ranks, timeout=400)
        assert done.returncode == 0, done.stderr
    alone, many = (journal(tmp_path / "runs" / f"r{ranks}") for ranks in (1, RANKS))
    assert [(r["terms"], r["digest"]) for r in alone] == [(r["terms"], r["digest"]) for r in many]
    size = (tmp_path / "runs" / f"r{RANKS}" / "journal.jsonl").stat().st_size
    print(f"journal: {size // 2} bytes a step, {size / 2 / MEMBERS:.1f} a member")
