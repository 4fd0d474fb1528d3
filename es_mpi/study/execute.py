"""The runs of a study, one after the other as jobs of their own, or as the tasks of a Slurm job array."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from es_mpi.comm.launcher import detect
from es_mpi.config.identity import diff_relevant
from es_mpi.config.load import load_resolved
from es_mpi.errors import EXIT_INTERNAL, EXIT_OK, EXIT_TRY_AGAIN, UsageError
from es_mpi.study.plan import Cell, Study, commands

ARRAY = """\
#!/bin/bash
# The {count} runs of the study {name}, one a task of the array; finished ones end at once, begun ones go on.
# Options of sbatch before this file's name win over those below: nodes and time are of one run, one rank a GPU.

#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@900
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={name}_%a.log

export PYTHONUNBUFFERED=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # srun does not take it over from sbatch
{program} study {path} --cell "$SLURM_ARRAY_TASK_ID" --launcher 'srun --mpi=pmix' &
trap 'kill -USR1 $!' USR1  # to the study, which tells its run
wait $!
code=$?
((code < 128)) || {{ wait $!; code=$?; }}  # the signal ended the first wait
((code != 75)) || scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
exit "$code"
"""


def array_script(study: Study) -> str:
    """A batch file for sbatch: one cell a task."""
    program = shlex.join([sys.executable, "-m", "es_mpi"])
    count = len(study.cells)
    return ARRAY.format(
        name=study.file.name, count=count, last=count - 1, program=program, path=shlex.quote(str(study.path.resolve()))
    )


def run_cells(study: Study, cells: Sequence[Cell], launcher: str, tell: Callable[[str], None]) -> int:
    """Begin or go on with every run of `cells` that is not finished, each under `launcher` (as words of a shell; may be empty).

    One that fails does not keep the others from running; one that asks to be tried again (it was stopped) ends the work. Returns
    the exit code. Raises UsageError before anything is run where a run folder is of another config than its cell.
    """
    launch = detect(os.environ)
    if launch is not None and launch.size > 1:
        raise UsageError(
            "a study starts the ranks of each run itself", value=f"rank {launch.rank} of {launch.size}",
            remedy="without a launcher: es-mpi study STUDY.yaml --launcher 'mpirun -n 8'",
        )  # fmt: skip
    for cell in cells:
        _require_same(cell)
    failed = []
    for number, cell in enumerate(cells, start=1):
        if cell.folder.summary.exists():
            tell(f"{number}/{len(cells)} {cell.folder.path}: finished")
            continue
        words = [*shlex.split(launcher), sys.executable, "-m", "es_mpi", *commands(cell, study.base)]
        tell(f"{number}/{len(cells)} {cell.folder.path}: {words[len(shlex.split(launcher)) + 3]}")
        code = _run(words)
        if code == EXIT_TRY_AGAIN:
            tell("stopped; the same command goes on")
            return code
        if code != EXIT_OK:
            failed.append(cell)
            tell(f"{number}/{len(cells)} {cell.folder.path}: failed with exit code {code}")
    if failed:
        tell(f"{len(failed)} of {len(cells)} runs failed: {', '.join(str(cell.folder.path) for cell in failed)}")
    return EXIT_INTERNAL if failed else EXIT_OK


def _require_same(cell: Cell) -> None:
    if not cell.folder.config.is_file():
        return
    changed = diff_relevant(load_resolved(cell.folder.path), cell.config)
    if changed:
        raise UsageError(
            f"the run is of another study: {', '.join(changed)} differ", value=str(cell.folder.path),
            expected="the config of its cell", key="name", remedy="give the changed study another name",
        )  # fmt: skip


def _run(words: Sequence[str]) -> int:
    """The exit code of the command, to which signals that would end this process are passed on; 75 if one of them ended it."""
    with _passing_on() as holder:
        holder.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        code = holder[0].wait()
    return EXIT_TRY_AGAIN if holder[1:] and code != EXIT_OK else code


@contextmanager
def _passing_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list for a child. What SIGTERM or SIGUSR1 tells this process, the child is told; a child told is listed twice."""
    holder: list[subprocess.Popen[bytes]] = []

    def tell_child(number: int, frame: FrameType | None) -> None:
        if holder:
            holder[0].send_signal(number)
            holder.append(holder[0])

    old = {number: signal.signal(number, tell_child) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        yield holder
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
