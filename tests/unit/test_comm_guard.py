"""However a rank ends, the job ends with it, and with exit code 0 only when its work was done."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NoReturn

import pytest
from thread_comm import Aborted, run_threads

from es_mpi.comm import Comm
from es_mpi.comm.agree import agree_errors
from es_mpi.comm.faults import agreed
from es_mpi.comm.guard import run_guarded
from es_mpi.comm.single import SingleComm
from es_mpi.errors import (
    EXIT_DIVERGED,
    EXIT_INTERNAL,
    EXIT_TRY_AGAIN,
    EXIT_USAGE,
    Divergence,
    EngineError,
    EsMpiError,
    TryAgain,
    UsageError,
)


def _raise(error: BaseException) -> NoReturn:
    raise error


@pytest.mark.parametrize("code", [0, 75])
def test_work_that_returns_gives_its_exit_code(code: int) -> None:
    assert run_threads(2, lambda comm: run_guarded(comm, lambda: code)) == [code, code]


def test_an_agreed_error_is_printed_once_and_ends_in_good_order(capsys: pytest.CaptureFixture[str]) -> None:
    def work(comm: Comm) -> int:
        agree_errors(comm, UsageError("sigma must be positive"))
        return 0

    assert run_threads(3, lambda comm: run_guarded(comm, lambda: work(comm))) == [EXIT_USAGE] * 3
    assert capsys.readouterr().err.count("sigma must be positive") == 1


@pytest.mark.parametrize("kind", [UsageError, TryAgain, Divergence, EngineError])
def test_an_agreed_error_is_still_of_its_kind_with_its_exit_code(kind: type[EsMpiError]) -> None:
    error = agreed(kind, "what happened", silent=True)
    assert isinstance(error, kind)
    assert (str(error), error.exit_code, error.silent) == ("what happened", kind.exit_code, True)


@pytest.mark.parametrize(
    ("error", "code", "said", "with_traceback"),
    [
        (SystemExit(0), EXIT_INTERNAL, "sys.exit(0)", True),
        (SystemExit(None), EXIT_INTERNAL, "sys.exit(None)", True),
        (KeyboardInterrupt(), EXIT_TRY_AGAIN, "interrupted", False),
        (RuntimeError("boom"), EXIT_INTERNAL, "RuntimeError: boom", True),
        (EngineError("stale version"), EXIT_INTERNAL, "stale version", True),
        (UsageError("on one rank only"), EXIT_USAGE, "on one rank only", False),
        (TryAgain("wall time"), EXIT_TRY_AGAIN, "wall time", False),
        (Divergence("digests"), EXIT_DIVERGED, "digests", False),
        (OSError(errno.ENOSPC, "No space left on device", "eval/rows"), EXIT_TRY_AGAIN, "'eval/rows'", False),
        (OSError(errno.ENOENT, "No such file", "engine.so"), EXIT_INTERNAL, "engine.so", True),
    ],
)
def test_any_other_end_of_one_rank_aborts_the_job(
    error: BaseException, code: int, said: str, with_traceback: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (outcome,) = run_threads(1, lambda comm: run_guarded(comm, lambda: _raise(error)))
    assert isinstance(outcome, Aborted)
    assert outcome.args[0] == code
    assert said in outcome.args[1]
    assert ("Traceback" in capsys.readouterr().err) == with_traceback


def test_a_rank_that_is_not_there_at_the_end_fails_the_job() -> None:
    work: list[Callable[[], int]] = [lambda: 0, lambda: _raise(RuntimeError("boom"))]
    first, second = run_threads(2, lambda comm: run_guarded(comm, work[comm.rank]), deadline_s=0.2)
    assert first.args[0] == EXIT_TRY_AGAIN
    assert "'end of the job'" in first.args[1]
    assert second.args[0] == EXIT_INTERNAL
    assert (first.args[2], second.args[2]) == ((1,), ())


def test_alone_the_process_exits_with_the_code_and_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    comm = SingleComm(1.0)
    with pytest.raises(SystemExit) as caught:
        run_guarded(comm, lambda: _raise(SystemExit(0)))
    assert caught.value.code == EXIT_INTERNAL
    assert f"rank 0 on host {comm.host}: sys.exit(0)" in capsys.readouterr().err
