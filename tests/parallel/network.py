"""Machines with a network between them: namespaces of Linux, each with its own host name and address."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from launching import MPIRUN, environment

HEAD = "10.77.0.254"  # of mpirun
BY_CABLE = {"UCX_TLS": "tcp"}  # not by the memory that these machines share


class NoNetwork(Exception):
    """No network can be made here."""


class Network:
    """Machines whose host names are their addresses, and one with a switch, from which mpirun starts processes."""

    def __init__(self, folder: Path, machines: int = 2):
        self.hosts = [f"10.77.0.{i + 1}" for i in range(machines)]
        self.switch, *self.names = [f"cf{os.getpid():x}-{i}" for i in range(machines + 1)]
        self.launcher = folder / "launcher"

    def make(self) -> None:
        for name in (self.switch, *self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
        ip("-n", self.switch, "addr", "add", f"{HEAD}/24", "dev", "switch")
        ip("-n", self.switch, "link", "set", "switch", "up")
        for i, (name, host) in enumerate(zip(self.names, self.hosts, strict=True)):
            ip("link", "add", "cable", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            ip("-n", name, "addr", "add", f"{host}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", self.switch, "link", "set", f"port{i}", "master", "switch", "up")
        cases = " ".join(f"{host}) name={name};;" for name, host in zip(self.names, self.hosts, strict=True))
        inside = 'hostname "$0"; exec sh -c "$1"'
        self.launcher.write_text(
            '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
            f"case $host in {cases} esac\nexec ip netns exec $name unshare -u sh -c '{inside}' $host \"$*\"\n"
        )
        self.launcher.chmod(0o755)

    def remove(self) -> None:
        for name in (self.switch, *self.names):
            for process in self.processes(name):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def processes(self, name: str) -> list[int]:
        done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        return list(map(int, done.stdout.split()))

    def ranks(self) -> list[int]:
        """The processes of all machines that train, or watch a training."""
        every = [process for name in self.names for process in self.processes(name)]
        return [process for process in every if b"caffelite" in command_line(process)]

    def limit(self, rate: str) -> None:
        """What a machine sends is limited to so many bits in a second."""
        for name in self.names:
            words = ["tc", "qdisc", "replace", "dev", "cable", "root", "tbf", "rate", rate, "burst", "256kb"]
            ip("netns", "exec", name, *words, "latency", "400ms")

    def cut(self) -> None:
        """Cuts the cable of the last machine."""
        ip("-n", self.names[-1], "link", "set", "cable", "down")

    def run(self, folder: Path, *command: object, stderr: IO[bytes] | int = subprocess.PIPE) -> subprocess.Popen:
        """A command with a rank on each machine."""
        words = ["ip", "netns", "exec", self.switch, MPIRUN, "-launcher", "ssh", "-launcher-exec", self.launcher]
        words += ["-localhost", HEAD, "-hosts", ",".join(self.hosts), "-ppn", "1", "-n", len(self.hosts)]
        pipes = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
        return subprocess.Popen(list(map(str, [*words, *command])), cwd=folder, env=environment() | BY_CABLE, **pipes)

    def sent(self) -> int:
        """Bytes that the first machine has sent."""
        done = subprocess.run(["ip", "-n", self.names[0], "-s", "-j", "link", "show", "cable"], capture_output=True)
        return json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"]


def command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def opened(folder: Path, machines: int = 2, rate: str = "1gbit") -> Iterator[Network]:
    """A network whose launcher is in ``folder``. Errors: NoNetwork."""
    if missing := [name for name in ("ip", "tc", "unshare", "hostname") if not shutil.which(name)]:
        raise NoNetwork(f"no {missing[0]}")
    made = Network(folder, machines)
    try:
        try:
            made.make()
            made.limit(rate)
        except subprocess.CalledProcessError as error:
            raise NoNetwork(error.stderr.decode().strip()) from None
        yield made
    finally:
        made.remove()
