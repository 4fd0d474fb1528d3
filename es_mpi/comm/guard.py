"""The last resort of a rank: whatever ends it early ends the job, with a reason and never with exit code 0."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable

from es_mpi.comm.faults import Agreed, RanksMissing
from es_mpi.comm.port import Comm
from es_mpi.errors import EXIT_INTERNAL, EXIT_TRY_AGAIN, EsMpiError

# A disk that is full, over its quota, read-only or failing, and a file that may not grow. No write needs a rule of its own.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)


def run_guarded(comm: Comm, work: Callable[[], int]) -> int:
    """Run `work` on this rank, close `comm`, and return the exit code.

    `work` returns its exit code, or raises. An `Agreed` error is printed once and the job ends in good order with its code.
    Anything else, be it SystemExit(0), takes all ranks down through `comm.abort`.
    """
    try:
        code = _code_of(work)
        comm.close()
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: the others would wait
        comm.abort(*_last_words(error), missing=error.ranks if isinstance(error, RanksMissing) else ())
    return code


def _code_of(work: Callable[[], int]) -> int:
    try:
        return work()
    except Agreed as error:
        if not error.silent:
            print(f"es-mpi: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _last_words(error: BaseException) -> tuple[int, str]:
    """Exit code and reason; the traceback is printed where the fault is ours and not the input's or the cluster's."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_TRY_AGAIN, str(error) or "interrupted from the keyboard"
    if isinstance(error, EsMpiError) and error.exit_code != EXIT_INTERNAL:
        return error.exit_code, str(error)
    if isinstance(error, OSError) and error.errno in _DISK:
        remedy = "make room or repair it, then es-mpi resume: every recorded step is safe"
        return EXIT_TRY_AGAIN, f"the disk refused: {error}\n  remedy    {remedy}"
    traceback.print_exception(error)
    if isinstance(error, SystemExit):
        return EXIT_INTERNAL, f"sys.exit({error.code!r}) in the middle of the work"
    return EXIT_INTERNAL, f"{type(error).__name__}: {error}"
