"""What ranks decide together: every rank reaches the same decision, and the message names who differed."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_comm import run_threads

from es_mpi.comm import Comm
from es_mpi.comm.agree import agree_errors, agree_fields, any_rank, merge_scores, sum_tallies
from es_mpi.comm.faults import Agreed
from es_mpi.errors import EXIT_DIVERGED, EXIT_USAGE, Divergence, EsMpiError, UsageError
from es_mpi.types import MemberScore, Status


def _errors(outcomes: list[Any]) -> list[Agreed]:
    assert all(isinstance(outcome, Agreed) for outcome in outcomes), outcomes
    return outcomes


def test_no_error_on_any_rank_lets_all_pass() -> None:
    assert run_threads(3, lambda comm: agree_errors(comm, None)) == [None] * 3


def test_an_error_on_one_rank_stops_all_and_is_told_once_with_its_place() -> None:
    errors = _errors(run_threads(3, lambda comm: agree_errors(comm, UsageError("no space left") if comm.rank == 2 else None)))
    assert [error.silent for error in errors] == [False, True, True]
    assert {error.exit_code for error in errors} == {EXIT_USAGE}
    assert {str(error) for error in errors} == {"rank 2 on node1: no space left"}
    assert all(isinstance(error, UsageError) for error in errors)


def test_equal_errors_are_told_once_and_different_ones_all() -> None:
    texts = ["bad sigma", "bad sigma", "bad alpha"]
    error = _errors(run_threads(3, lambda comm: agree_errors(comm, UsageError(texts[comm.rank]))))[0]
    assert str(error) == "ranks 0-1 on node0: bad sigma\nrank 2 on node1: bad alpha"


def test_alone_an_error_keeps_its_own_words() -> None:
    (error,) = _errors(run_threads(1, lambda comm: agree_errors(comm, UsageError("bad sigma", key="phases.warm.sigma"))))
    assert str(error) == "phases.warm.sigma: bad sigma"
    assert not error.silent


def test_equal_fields_pass() -> None:
    assert run_threads(3, lambda comm: agree_fields(comm, "config", {"population": "3"})) == [None] * 3


def test_different_population_stops_every_rank_and_names_the_field() -> None:
    held = [{"population": "3", "sigma": "0.1"}, {"population": "5", "sigma": "0.1"}, {"population": "3", "sigma": "0.1"}]
    errors = _errors(run_threads(3, lambda comm: agree_fields(comm, "config", held[comm.rank])))
    assert len({str(error) for error in errors}) == 1
    text = str(errors[0])
    assert "population = 3 on rank 0 on node0, rank 2 on node1" in text
    assert "population = 5 on rank 1 on node0" in text
    assert "sigma" not in text
    assert isinstance(errors[0], UsageError)


def test_a_field_that_one_rank_lacks_differs() -> None:
    held: list[dict[str, str]] = [{}, {"digest": "ab"}]
    errors = _errors(run_threads(2, lambda comm: agree_fields(comm, "weights", held[comm.rank], error=Divergence)))
    assert "digest = (absent) on rank 0" in str(errors[0])
    assert {error.exit_code for error in errors} == {EXIT_DIVERGED}


def _merge(shares: list[list[MemberScore]], n_members: int) -> list[Any]:
    return run_threads(len(shares), lambda comm: merge_scores(comm, n_members, shares[comm.rank]))


def _bits(table: list[MemberScore]) -> list[tuple[int, bytes, Status]]:
    return [(score.member, struct.pack("<d", score.reward), score.status) for score in table]


@settings(max_examples=30, deadline=None)
@given(rewards=st.lists(st.floats(), max_size=12), size=st.integers(1, 4), shift=st.integers(0, 11))
def test_any_shares_merge_to_the_same_table_on_every_rank(rewards: list[float], size: int, shift: int) -> None:
    shares: list[list[MemberScore]] = [[] for _ in range(size)]
    for member, reward in enumerate(rewards):
        shares[(member + shift) % size].append(MemberScore(member, reward))
    tables = _merge(shares, len(rewards))
    expected = [
        MemberScore(member, reward) if math.isfinite(reward) else MemberScore(member, math.nan, Status.FAILED)
        for member, reward in enumerate(rewards)
    ]
    assert [_bits(table) for table in tables] == [_bits(expected)] * size


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_fails_its_member_and_no_other(reward: float) -> None:
    table = _merge([[MemberScore(0, 0.25)], [MemberScore(1, reward)], [MemberScore(2, 0.5)]], 3)[0]
    assert [score.status for score in table] == [Status.OK, Status.FAILED, Status.OK]
    assert math.isnan(table[1].reward)
    assert (table[0].reward, table[2].reward) == (0.25, 0.5)


def test_a_failed_member_stays_failed_and_one_that_nobody_scored_is_missing() -> None:
    table = _merge([[MemberScore(2, math.nan, Status.FAILED)], [MemberScore(0, 1.0)]], 3)[1]
    assert [score.status for score in table] == [Status.OK, Status.MISSING, Status.FAILED]


def test_a_member_scored_twice_is_an_internal_error_on_every_rank() -> None:
    for error in _merge([[MemberScore(0, 1.0)], [MemberScore(0, 1.0), MemberScore(1, 1.0)]], 2):
        assert isinstance(error, EsMpiError)
        assert "member 0 was scored twice: by rank 0 and by rank 1" in str(error)


def test_a_member_beyond_the_population_is_an_internal_error() -> None:
    error = _merge([[MemberScore(0, 1.0)], [MemberScore(2, 1.0)]], 2)[0]
    assert isinstance(error, EsMpiError)
    assert "member 2 of 2" in str(error)


def test_ranks_that_merge_different_populations_do_not_mix() -> None:
    for error in run_threads(2, lambda comm: merge_scores(comm, 3 + 2 * comm.rank, [])):
        assert isinstance(error, Divergence)
        assert "3 members" in str(error)
        assert "5 members" in str(error)


def test_a_member_costs_16_bytes() -> None:
    def program(comm: Comm) -> int:
        before = comm.bytes_sent
        merge_scores(comm, 1024, [MemberScore(member, 0.5) for member in range(comm.rank, 1024, comm.size)])
        return comm.bytes_sent - before

    assert sum(run_threads(4, program)) == 16 * 1024


def test_sums_have_the_same_bits_everywhere_whatever_the_order_of_ranks() -> None:
    tallies: list[dict[str, float]] = [{"tokens": 1.0, "right": 1.0}, {"tokens": 1e100}, {"tokens": -1e100}]
    for turn in range(3):
        sums = run_threads(3, lambda comm, turn=turn: sum_tallies(comm, tallies[(comm.rank + turn) % 3]))
        assert sums == [{"right": 1.0, "tokens": 1.0}] * 3
        assert list(sums[0]) == ["right", "tokens"]


@pytest.mark.parametrize("flags", [[False, False, False], [False, True, False], [True, True, True]])
def test_any_rank(flags: list[bool]) -> None:
    assert run_threads(3, lambda comm: any_rank(comm, "stop requested", flags[comm.rank])) == [any(flags)] * 3
