"""Two hosts on this machine: network namespaces joined by a bridge, each with its own name and sshd. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mpi_launch import mpirun_path, rank_env

NEEDED = ("ip", "sshd", "ssh", "ssh-keygen", "unshare")
PORT = 2222
START_S = 20.0
SSHD = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
"""


def missing() -> str:
    """What this machine lacks, or ""."""
    return "root" if os.geteuid() else ", ".join(name for name in NEEDED if shutil.which(name) is None)


@dataclass(frozen=True)
class Hosts:
    """The two hosts; `tag` tells their names from those of another test that runs at the same time."""

    folder: Path
    tag: str

    @property
    def addresses(self) -> list[str]:
        return [f"10.77.{int(self.tag) % 256}.{host + 1}" for host in range(2)]

    def inside(self, host: int, command: Sequence[str]) -> list[str]:
        """`command` as it is run on a host."""
        named = f'hostname es{self.tag}-host{host} && exec "$@"'
        return ["ip", "netns", "exec", f"es{self.tag}n{host}", "unshare", "--uts", "sh", "-c", named, "sh", *command]

    def cut_off(self, host: int) -> None:
        _ip("link", "set", f"es{self.tag}v{host}", "down")

    def mpirun(self, args: Sequence[str | Path], env: dict[str, str], *options: str) -> subprocess.Popen[str]:
        """Start `python *args` on one rank of each host, from the first."""
        ssh = f"-p {PORT} -i {self.folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        passed = [word for name in env for word in ("-x", name)]
        command = [
            mpirun_path(), *options, "--prefix", sys.prefix, "--prtemca", "plm_ssh_args", ssh,
            "--host", ",".join(f"{address}:1" for address in self.addresses), "-n", "2", "--bind-to", "none",
            *passed, sys.executable, *map(str, args),
        ]  # fmt: skip
        return subprocess.Popen(
            self.inside(0, command), env=rank_env(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip


@contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    """Make both hosts; everything is taken away again in any case."""
    hosts = Hosts(folder, str(os.getpid()))
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, timeout=START_S)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd separates its privileges there
    with ExitStack() as stack:
        bridge = f"es{hosts.tag}br"
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "del", bridge)
        _ip("link", "set", bridge, "up")
        for host, address in enumerate(hosts.addresses):
            space, outer = f"es{hosts.tag}n{host}", f"es{hosts.tag}v{host}"
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("link", "add", outer, "master", bridge, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", space, "link", "set", device, "up")
            config = folder / f"sshd{host}.conf"
            config.write_text(SSHD.format(port=PORT, address=address, folder=folder))
            server = subprocess.Popen(
                hosts.inside(host, [shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(config)]),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(folder / f"sshd{host}.log").open("w"),
            )  # fmt: skip
            stack.callback(server.wait, START_S)
            stack.callback(server.terminate)
        _wait_for_ssh(hosts)
        yield hosts


def _wait_for_ssh(hosts: Hosts) -> None:
    end = time.monotonic() + START_S
    for host, address in enumerate(hosts.addresses):
        probe = hosts.inside(1 - host, ["bash", "-c", f"exec 3<>/dev/tcp/{address}/{PORT}"])
        while subprocess.run(probe, stderr=subprocess.DEVNULL, timeout=START_S, check=False).returncode:
            assert time.monotonic() < end, (hosts.folder / f"sshd{host}.log").read_text()
            time.sleep(0.05)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
