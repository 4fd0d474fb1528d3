"""What the launcher says about this process, read from its environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from es_mpi.comm.faults import agreed
from es_mpi.errors import UsageError


@dataclass(frozen=True, slots=True)
class Launch:
    """One rank as its launcher started it. None where the launcher does not say."""

    launcher: str
    rank: int
    size: int | None
    local_rank: int | None
    local_size: int | None


# Name, then the variables of rank, size, local rank and local size ("" where there is none). The first row whose variables are
# all set counts: mpirun inside a Slurm job also sees Slurm's, and a Slurm step with --mpi=pmi2 also sees PMI's.
# SLURM_NTASKS is not here: a batch script has it without having launched anything.
_OMPI = "OMPI_COMM_WORLD_"
_LAUNCHERS = (
    ("mpirun (Open MPI)", _OMPI + "RANK", _OMPI + "SIZE", _OMPI + "LOCAL_RANK", _OMPI + "LOCAL_SIZE"),
    ("mpiexec (MPICH, Intel MPI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
    ("a PMI launcher", "PMI_RANK", "PMI_SIZE", "", ""),
    ("a PMIx launcher", "PMIX_RANK", "", "", ""),
    ("torchrun", "ROLE_RANK", "ROLE_WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),  # starts no MPI: check_world stops it
)


def detect(env: Mapping[str, str]) -> Launch | None:
    """The launch that `env` describes, or None for a process that no launcher started."""
    for name, rank, size, local_rank, local_size in _LAUNCHERS:
        if all(variable in env for variable in (rank, size, local_rank, local_size) if variable):
            return Launch(
                launcher=name,
                rank=int(env[rank]),
                size=_number(env, size),
                local_rank=_number(env, local_rank),
                local_size=_slurm_tasks_here(env) if name == "srun" else _number(env, local_size),
            )
    return None


def _number(env: Mapping[str, str], variable: str) -> int | None:
    return int(env[variable]) if variable else None


def _slurm_tasks_here(env: Mapping[str, str]) -> int | None:
    """This node's entry of SLURM_STEP_TASKS_PER_NODE, where `"2(x3),1"` means 2, 2, 2, 1."""
    listed = re.findall(r"(\d+)(?:\(x(\d+)\))?", env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    by_node = [int(tasks) for tasks, repeat in listed for _ in range(int(repeat or 1))]
    node = int(env.get("SLURM_NODEID", "0"))
    return by_node[node] if node < len(by_node) else None


def check_world(launch: Launch, mpi_size: int) -> None:
    """Raise UsageError when MPI sees fewer ranks than were launched: each would train alone, on the same files."""
    if mpi_size > launch.rank and (launch.size is None or mpi_size >= launch.size):
        return
    started = f"rank {launch.rank}" if launch.size is None else f"{launch.size} ranks"
    message = UsageError(
        f"{launch.launcher} started {started}, but MPI sees {mpi_size}",
        expected="one MPI job: as it is, the ranks would be separate trainings in one run folder",
        remedy="under Slurm srun --mpi=pmix, elsewhere the mpirun of the MPI that mpi4py loads (es-mpi doctor shows both)",
    )
    raise agreed(UsageError, str(message), silent=launch.rank != 0)
