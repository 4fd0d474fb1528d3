"""Ranks: how they start, meet, agree and end."""

from __future__ import annotations

import os

from es_mpi.comm.faults import agreed
from es_mpi.comm.launcher import detect
from es_mpi.comm.port import Comm
from es_mpi.comm.single import SingleComm
from es_mpi.errors import UsageError

__all__ = ["Comm", "open_comm"]

START_DEADLINE_S = 600.0  # until the config is read: ranks on a slow file system may be minutes apart


def open_comm(deadline_s: float = START_DEADLINE_S) -> Comm:
    """The ranks of this job: all that the launcher started, or this process alone when there is no launcher.

    Raises UsageError when mpi4py or its MPI library is missing, or when MPI does not see the launcher's ranks.
    """
    launch = detect(os.environ)
    if launch is None or launch.size == 1:
        return SingleComm(deadline_s)
    try:
        from es_mpi.comm.mpi import open_mpi
    except (ImportError, RuntimeError) as error:  # no mpi4py; or no MPI library that it can load
        message = UsageError(
            f"{launch.launcher} started more than one rank, but mpi4py does not load: {error}",
            remedy="pip install 'es-mpi[cpu]', or build mpi4py against the cluster's MPI: pip install --no-binary mpi4py mpi4py",
        )
        raise agreed(UsageError, str(message), silent=launch.rank != 0) from error
    return open_mpi(launch, deadline_s)
