"""A Slurm cluster of two nodes on this machine, for as long as a test needs it: needs root, slurm-wlm, munge and libpmix-dev."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
PMIX = Path("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so")  # Slurm opens it under this name, which the -dev package has
START_S = 30.0

CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
NodeName=node0 NodeHostname={host} NodeAddr=127.0.0.1 Port={port0} CPUs={cpus} State=UNKNOWN
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=node0,node1 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """What this machine lacks, or ""."""
    lacks = [name for name in NEEDED if shutil.which(name) is None] + ([] if PMIX.exists() else ["libpmix-dev"])
    return "root" if os.geteuid() else ", ".join(lacks)


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start the daemons; yields the environment in which srun finds them. They are ended, and waited for, in any case."""
    for name in ("state", "spool-node0", "spool-node1", "tmp-node0", "tmp-node1"):
        (folder / name).mkdir()
    folder.chmod(0o755)  # munge wants to be sure of the folders above its socket
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    ports = _free_ports(3)
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(host=socket.gethostname(), folder=folder, port=ports[0], port0=ports[1], port1=ports[2], cpus=os.cpu_count())
    )
    env = {**os.environ, "SLURM_CONF": str(conf)}
    with ExitStack() as daemons:
        for command in (
            ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
             f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"],
            ["slurmctld", "-D", "-f", str(conf)],
            ["slurmd", "-D", "-f", str(conf), "-N", "node0"],
            ["slurmd", "-D", "-f", str(conf), "-N", "node1"],
        ):  # fmt: skip
            daemons.enter_context(_daemon(command, env, folder / f"{len(list(folder.glob('*.out')))}.out"))
            if command[0] == "munged":
                _wait(lambda: (folder / "munge.socket").exists(), "munged")
        _wait(lambda: _idle(env) == 2, "two idle nodes")
        yield env


def _idle(env: dict[str, str]) -> int:
    states = ["sinfo", "--noheader", "--Node", "--format=%T"]
    done = subprocess.run(states, env=env, capture_output=True, text=True, timeout=START_S, check=False)
    return done.stdout.split().count("idle")


@contextmanager
def _daemon(command: list[str], env: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_S
    while not ready():
        assert time.monotonic() < end, f"no {what} after {START_S} s"
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
