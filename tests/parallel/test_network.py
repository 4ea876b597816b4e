"""One net over machines with a network between them: namespaces of Linux, each with its own host name and address."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest
from launching import COMMAND, MPIRUN, SOLVER, environment, finish, mpirun, needs_mpi, prepare

pytestmark = [pytest.mark.mpi, pytest.mark.slow, needs_mpi]
HEAD = "10.77.0.254"  # of mpirun
BY_CABLE = {"UCX_TLS": "tcp"}  # not by the memory that these machines share
GRADIENTS = 4 * 1001 * 1000  # bytes of WIDE
WIDE = """
name: "wide"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param { shape { dim: 4 dim: 1000 }
  shape { dim: 4 } data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1000 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


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

    def run(self, folder: Path, *options: str, stderr: IO[bytes] | int = subprocess.PIPE) -> subprocess.Popen:
        """A training with a rank on each machine."""
        words = ["ip", "netns", "exec", self.switch, MPIRUN, "-launcher", "ssh", "-launcher-exec", self.launcher]
        words += ["-localhost", HEAD, "-hosts", ",".join(self.hosts), "-ppn", "1", "-n", len(self.hosts)]
        pipes = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
        return subprocess.Popen(
            list(map(str, [*words, *COMMAND, *options])), cwd=folder, env=environment() | BY_CABLE, **pipes
        )

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


@pytest.fixture
def network(tmp_path) -> Iterator[Network]:
    if missing := [name for name in ("ip", "tc", "unshare", "hostname") if not shutil.which(name)]:
        pytest.skip(f"no network can be made: no {missing[0]}")
    made = Network(tmp_path)
    try:
        try:
            made.make()
            made.limit("1gbit")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network can be made: {error.stderr.decode().strip()}")
        yield made
    finally:
        made.remove()


@pytest.fixture
def folder(tmp_path) -> Path:
    prepare(tmp_path)
    (tmp_path / "wide.prototxt").write_text(WIDE)
    return tmp_path


def solver(folder: Path, text: str, prefix: str) -> None:
    (folder / "solver.prototxt").write_text(f'{text} snapshot_prefix: "{prefix}"')


def happens(fact: Callable[[], object], what: str) -> None:
    until = time.monotonic() + 240
    while not fact():
        assert time.monotonic() < until, f"after 240 s: not {what}"
        time.sleep(0.1)


def losses(folder: Path, prefix: str) -> bytes:
    return (folder / f"{prefix}_run/losses.f32").read_bytes()


def test_two_machines_have_the_bytes_of_one(network, folder):
    solver(folder, SOLVER, "one")
    finish(mpirun(2, *COMMAND, cwd=folder))
    solver(folder, SOLVER, "two")
    err = finish(network.run(folder))
    assert "2 processes (MPI, CPU)" in err
    assert losses(folder, "two") == losses(folder, "one")
    assert network.sent() > 50 * 4 * 32 * 108  # the gradients of the first layer


def test_a_slow_network_is_no_alarm(network, folder):
    network.limit("20mbit")  # 1.6 s for the gradients of an iteration
    solver(folder, SOLVER.replace("mlp", "wide").replace("max_iter: 50", "max_iter: 4"), "slow")
    finish(network.run(folder, "-hang_seconds", "10"), timeout=280)
    assert len(losses(folder, "slow")) == 4 * 4
    assert network.sent() > 4 * GRADIENTS


def test_a_cut_cable_ends_every_rank(network, folder):
    solver(folder, f"{SOLVER.replace('50', '100000000')} display: 100", "cut")
    with open(folder / "said.txt", "wb") as output:
        process = network.run(folder, stderr=output)
    said = folder / "said.txt"
    happens(lambda: "Iteration 100" in said.read_text(), "training")
    network.cut()
    happens(lambda: not network.ranks(), "the end of all ranks")
    # mpirun itself may wait for the machine that it cannot reach
    happens(lambda: "the job ends" in said.read_text() or process.poll() is not None, "a report")
    process.kill()
    process.communicate()
    lines = [line for line in said.read_text().splitlines() if line.startswith("caffelite: ")]
    assert len(lines) == 1 and re.match(r"caffelite: rank \d .*the job ends", lines[0]), said.read_text()[-4000:]
    assert "Traceback" not in said.read_text()
