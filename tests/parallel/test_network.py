"""One net over machines with a network between them."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from launching import COMMAND, SOLVER, finish, mpirun, needs_mpi, prepare
from network import Network, NoNetwork, opened

pytestmark = [pytest.mark.mpi, pytest.mark.slow, needs_mpi]
GRADIENTS = 4 * 1001 * 1000  # bytes of WIDE
WIDE = """
name: "wide"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param { shape { dim: 4 dim: 1000 }
  shape { dim: 4 } data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1000 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture
def network(tmp_path) -> Iterator[Network]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(opened(tmp_path))
        except NoNetwork as error:
            pytest.skip(f"no network can be made: {error}")
        yield made


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
    err = finish(network.run(folder, *COMMAND))
    assert "2 processes (MPI, CPU)" in err
    assert losses(folder, "two") == losses(folder, "one")
    assert network.sent() > 50 * 4 * 64 * 108  # the gradients of the first layer


def test_a_slow_network_is_no_alarm(network, folder):
    network.limit("20mbit")  # 1.6 s for the gradients of an iteration
    solver(folder, SOLVER.replace("mlp", "wide").replace("max_iter: 50", "max_iter: 4"), "slow")
    finish(network.run(folder, *COMMAND, "-hang_seconds", "10"), timeout=280)
    assert len(losses(folder, "slow")) == 4 * 4
    assert network.sent() > 4 * GRADIENTS


def test_a_cut_cable_ends_every_rank(network, folder):
    solver(folder, f"{SOLVER.replace('50', '100000000')} display: 100", "cut")
    with open(folder / "said.txt", "wb") as output:
        process = network.run(folder, *COMMAND, stderr=output)
    message = folder / "said.txt"
    happens(lambda: "Iteration 100" in message.read_text(), "training")
    network.cut()
    happens(lambda: not network.ranks(), "the end of all ranks")
    # mpirun itself may wait for the machine that it cannot reach
    happens(lambda: "the job ends" in message.read_text() or process.poll() is not None, "a report")
    process.kill()
    process.communicate()
    lines = [line for line in message.read_text().splitlines() if line.startswith("caffelite: ")]
    assert len(lines) == 1 and re.match(r"caffelite: rank \d .*the job ends", lines[0]), message.read_text()[-4000:]
    assert "Traceback" not in message.read_text()
