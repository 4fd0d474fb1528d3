"""Reading the launcher's variables, and the trap of N launched ranks that MPI sees as N jobs of one."""

from __future__ import annotations

import sys

import pytest

from es_mpi.comm import open_comm
from es_mpi.comm.faults import Agreed
from es_mpi.comm.launcher import Launch, check_world, detect
from es_mpi.errors import EXIT_USAGE, UsageError

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "3",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
SRUN = {
    **BATCH_SCRIPT,
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
}


@pytest.mark.parametrize(
    ("env", "launch"),
    [
        ({}, None),
        (BATCH_SCRIPT, None),
        (OPEN_MPI, Launch("mpirun (Open MPI)", 3, 4, 1, 2)),
        (MPICH, Launch("mpiexec (MPICH, Intel MPI)", 1, 2, 1, 2)),
        (SRUN, Launch("srun", 6, 7, 0, 1)),
        ({**SRUN, "SLURM_NODEID": "1"}, Launch("srun", 6, 7, 0, 2)),
        ({**SRUN, "PMI_RANK": "6", "PMI_SIZE": "7"}, Launch("srun", 6, 7, 0, 1)),  # srun --mpi=pmi2
        ({**SRUN, **OPEN_MPI}, Launch("mpirun (Open MPI)", 3, 4, 1, 2)),  # mpirun in a Slurm job
        ({**SRUN, **MPICH}, Launch("mpiexec (MPICH, Intel MPI)", 1, 2, 1, 2)),  # its proxies are a Slurm step
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, Launch("a PMI launcher", 0, 2, None, None)),
        ({"PMIX_RANK": "2", "PMIX_NAMESPACE": "job"}, Launch("a PMIx launcher", 2, None, None, None)),
        (
            {"ROLE_RANK": "1", "ROLE_WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            Launch("torchrun", 1, 4, 1, 4),
        ),
    ],
)
def test_detect(env: dict[str, str], launch: Launch | None) -> None:
    assert detect(env) == launch


@pytest.mark.parametrize(("size", "rank", "mpi_size"), [(4, 3, 4), (1, 0, 1), (None, 0, 1), (None, 2, 3), (2, 0, 4)])
def test_a_world_as_large_as_the_launch_passes(size: int | None, rank: int, mpi_size: int) -> None:
    check_world(Launch("srun", rank, size, 0, 1), mpi_size)


@pytest.mark.parametrize(("size", "rank", "mpi_size"), [(4, 0, 1), (4, 3, 1), (4, 1, 2), (None, 1, 1)])
def test_singletons_stop_with_the_hint_and_one_rank_speaks(size: int | None, rank: int, mpi_size: int) -> None:
    with pytest.raises(UsageError, match=r"srun --mpi=pmix") as caught:
        check_world(Launch("srun", rank, size, 0, 1), mpi_size)
    assert isinstance(caught.value, Agreed)
    assert caught.value.silent == (rank != 0)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_launch_without_mpi4py_is_an_error_and_not_many_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", OPEN_MPI)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "es_mpi.comm.mpi", raising=False)
    with pytest.raises(UsageError, match="mpi4py does not load"):
        open_comm(1.0)


def test_a_launch_of_one_rank_needs_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"})
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert open_comm(1.0).size == 1
