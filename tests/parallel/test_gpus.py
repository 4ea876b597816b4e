"""GPUs train as the CPU does: two processes on one, by way of MPI; and ranks over NCCL, on GPUs of their own, on one
GPU where NCCL permits it, or on the stand-in. A rank that fails ends all, within a time."""

import importlib.util
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import jobs
import numpy as np
import pytest
from devices.host import installed
from launching import COMMAND, MLP, SOLVER, environment, finish, mpirun, needs_mpi

from caffelite import weights
from caffelite.devices import cuda
from caffelite.runs import registry
from caffelite.system import descendants, kill_tree
from caffelite.training.checkpoint import snapshot

AS_ONE = ["-scaling", "strong", "-precision", "fp32"]
TEN = SOLVER.replace("max_iter: 50", "max_iter: 10") + 'snapshot_prefix: "run" display: 5 '
SECONDS, SECONDS_OF_A_GPU = 90, 30  # of any command here
LAST = "run_iter_10.caffemodel"
SPLITS = [("stages=2", 2), ("stages=3", 3), ("stages=4", 4), ("shards=2", 2), ("stages=2,shards=2", 4)]
# What rank 1 does to itself in its seventh iteration.
FAULT = """
import time
RANK = open("/proc/self/environ").read().split("CAFFELITE_RANK=")[1][0]
KERNEL = 'extern "C" __global__ void illegal_access() { *(volatile int*)8 = 1; }'

class Fault:
    def setup(self, bottom, top):
        self.left = 7
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)
    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data
        self.left -= 1
        if self.left == 0 and RANK == "1":
            if self.param_str == "sleep":
                time.sleep(1000)
            if self.param_str == "kernel":
                import cupy
                cupy.RawModule(code=KERNEL).get_function("illegal_access")((1,), (1,), ())
                cupy.cuda.runtime.deviceSynchronize()
            raise ValueError("a bug in a layer")
    def backward(self, top, propagate_down, bottom):
        pass
"""
LAYER = """layer { name: "fault" type: "Python" bottom: "data" top: "data"
  python_param { module: "faults" layer: "Fault" param_str: "%s" } }
"""


class Machine(NamedTuple):
    """Where commands run. environment: of their processes. count: of GPUs. seconds: limit of a command."""

    environment: dict[str, str]
    count: int
    seconds: float = SECONDS

    def gpus(self, needed: int) -> str:
        """GPUs for so many ranks, as -gpu names them: each its own, or all GPU 0."""
        return ",".join(str(rank) if self.count >= needed else "0" for rank in range(needed))

    def start(self, *options: str, gpus: int, **variables: str) -> subprocess.Popen:
        words = [*COMMAND, "-gpu", self.gpus(gpus), *AS_ONE, *options]
        return subprocess.Popen(
            words,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def train(self, *options: str, gpus: int, status: int = 0, **variables: str) -> str:
        """The log of a run, which ends with this status within the time."""
        process = self.start(*options, gpus=gpus, **variables)
        return ended(process, status, self.seconds)


def ended(process: subprocess.Popen, status: int | None = None, seconds: float = SECONDS) -> str:
    """The log of a run that ends with this status; None: with any but 0. Whatever happens, none of its processes
    stays."""
    ranks = descendants(process.pid)[1:]
    try:
        log = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        pytest.fail(f"not done after {seconds} s:\n{process.communicate()[0]}")
    assert process.returncode == status if status is not None else process.returncode, log
    assert not [rank for rank in ranks if Path(f"/proc/{rank}/status").exists() and running(rank)], log
    return log


def running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture(params=[pytest.param("host", marks=pytest.mark.host), pytest.param("gpu", marks=pytest.mark.multi_gpu)])
def machine(request, folder) -> Machine:
    (folder / "solver.prototxt").write_text(TEN)
    if request.param == "host":
        return Machine(installed.environment(), 1)
    if cuda.count() < 4 and not cuda.sharing_permitted():
        pytest.skip("needs four GPUs, or NCCL_MULTI_RANK_GPU_ENABLE=1 and NCCL 2.30")
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(installed.ROOT)]))
    return Machine({**environment(), "PYTHONPATH": paths}, cuda.count(), SECONDS_OF_A_GPU)


@pytest.mark.gpu
@needs_mpi
@pytest.mark.mpi
def test_two_processes_on_one_gpu(folder):
    if not cuda.count():
        pytest.skip("no usable GPU")
    (folder / "solver.prototxt").write_text(TEN)
    assert "2 processes (MPI" in finish(mpirun(2, *COMMAND, "-gpu", "0", *AS_ONE, cwd=folder))
    jobs.assert_as_one(folder / LAST, atol=1e-4)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_that_divide_a_batch_train_as_one(machine, folder, ranks):
    log = machine.train(gpus=ranks)
    assert f"{ranks} processes" in log and "eagerly" not in log and "NCCL 2." in log
    jobs.assert_as_one(folder / LAST, atol=1e-4)


@pytest.mark.parametrize("split, ranks", SPLITS)
def test_a_net_over_gpus_trains_as_one(machine, folder, split, ranks):
    log = machine.train("-split", split, gpus=ranks)
    assert "eagerly" not in log and "NCCL 2." in log
    jobs.assert_as_one(folder / LAST, atol=1e-4)


IMAGES = """
layer { name: "data" type: "DummyData" top: "x" top: "label" dummy_data_param {
  shape { dim: 8 dim: 2 dim: 7 dim: 6 } shape { dim: 8 }
  data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 4 kernel_size: 3
  weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "ip" type: "InnerProduct" bottom: "y" top: "ip" inner_product_param { num_output: 3
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.mark.host
def test_ranks_whose_clocks_differ_choose_alike(folder, tmp_path):
    """They train as those do whose clocks are like rank 0's, by graphs."""
    (folder / "solver.prototxt").write_text(re.sub('net: "[^"]*"', 'net: "images.prototxt"', TEN))
    (folder / "images.prototxt").write_text(IMAGES)
    machine, trained = Machine(installed.environment(2), 2), []
    for number, prefers in enumerate(("small,one", "small,small", "one,one")):
        cache = {"CAFFELITE_CACHE": str(tmp_path / f"cache{number}"), "CAFFELITE_TUNE": "1"}
        log = machine.train(gpus=2, STAND_IN_PREFERS=prefers, **cache)
        assert "2 processes" in log and "eagerly" not in log
        trained.append([a.tobytes() for a in weights.read_model(folder / LAST)["conv"]])
    assert trained[0] == trained[1] != trained[2]


@pytest.mark.parametrize("options, ranks", [([], 2), (["-split", "stages=2"], 2), (["-split", "stages=2"], 4)])
def test_eager_ranks_train_as_one(machine, folder, options, ranks):
    """Without graphs; and two copies of a net that two GPUs hold each."""
    machine.train("-eager", *options, gpus=ranks)
    jobs.assert_as_one(folder / LAST, atol=1e-4)


def test_compressed_gradients_are_float32_over_nccl(machine, folder):
    assert "-compress fp16 has no effect between GPUs" in machine.train("-compress", "fp16", gpus=2)
    jobs.assert_as_one(folder / LAST, atol=1e-4)


@pytest.mark.parametrize(
    "options", [[], ["-split", "stages=2"], ["-split", "shards=2"]], ids=["batch", "stages", "shards"]
)
def test_a_snapshot_continues_with_any_number_of_gpus(machine, folder, options):
    """Of two ranks, one rank, and two ranks that divide the net in another way."""
    machine.train("-until", "4", *options, gpus=2)
    assert (folder / "run_iter_4.solverstate").exists()
    machine.train("-resume", "auto", "-until", "7", gpus=1)
    log = machine.train("-resume", "auto", "-split", "stages=2", gpus=2)
    assert "Resuming from run_iter_7.solverstate" in log
    jobs.assert_as_one(folder / LAST, atol=1e-4)


@pytest.mark.parametrize("options", [[], ["-split", "stages=2"]], ids=["batch", "stages"])
def test_test_nets_of_ranks_score_as_one(machine, folder, options):
    def scores(log: str) -> list[float]:
        return [float(value) for value in re.findall(r"Test net output #\d+: \w+ = (\S+)", log)]

    (folder / "solver.prototxt").write_text(TEN + "test_iter: 4 test_interval: 5")
    one, several = (scores(machine.train(*words, gpus=gpus)) for words, gpus in (([], 1), (options, 2)))
    assert len(one) == len(several) >= 6
    np.testing.assert_allclose(several, one, atol=1e-4)


def ranks_of(process: subprocess.Popen) -> dict[int, int]:
    """The process of each rank of a run."""
    ids = {}
    for child in descendants(process.pid)[1:]:
        with suppress(OSError):
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            words = Path(f"/proc/{child}/cmdline").read_bytes()
            rank = next((v.split(b"=")[1].split()[0] for v in variables if v.startswith(b"CAFFELITE_RANK=")), None)
            if rank is not None and b"watchdog_process" not in words:
                ids[int(rank)] = child
    return ids


def started(machine: Machine, folder: Path, *options: str, gpus: int = 2, **variables: str) -> subprocess.Popen:
    """A long run that has written its first snapshot."""
    (folder / "solver.prototxt").write_text(TEN.replace("max_iter: 10", "max_iter: 1000000") + "snapshot: 6")
    process, until = (
        machine.start("-hang_seconds", "3", *options, gpus=gpus, **variables),
        time.monotonic() + machine.seconds,
    )
    while not (folder / "run_iter_6.solverstate").exists():
        if process.poll() is not None or time.monotonic() > until:
            kill_tree(process.pid)
            pytest.fail(f"no snapshot:\n{process.communicate()[0]}")
        time.sleep(0.05)
    return process


def assert_the_last_snapshot_stands(folder: Path) -> None:
    states = snapshot.states(folder / "run")
    assert states and snapshot.sound(states[0][1]) and states[0][0] >= 6
    model = weights.read_model(str(states[0][1]).replace(".solverstate", ".caffemodel"))
    assert all(np.isfinite(blob).all() for blobs in model.values() for blob in blobs)


@pytest.mark.parametrize("options, gpus", [([], 2), (["-split", "stages=2"], 2), (["-split", "stages=2,shards=2"], 4)])
@pytest.mark.parametrize(
    "number, report",
    [(signal.SIGKILL, "rank 1 died: it was killed"), (signal.SIGSTOP, "rank 1 is stopped by a signal")],
    ids=["killed", "stopped"],
)
def test_a_captured_rank_that_ends_or_hangs_ends_all(machine, folder, number, report, options, gpus):
    process = started(machine, folder, *options, gpus=gpus)
    os.kill(ranks_of(process)[1], number)
    assert report in ended(process, None, machine.seconds)
    assert_the_last_snapshot_stands(folder)


@pytest.mark.parametrize(
    "fault, report",
    [
        ("sleep", r"hangs: it has made no progress(.|\n)*rank 1 .* in layer .fault. +<- hangs"),
        ("raise", 'rank 1 ended: .*layer "fault".*a bug in a layer'),
        ("kernel", "rank 1 ended: .*cudaErrorIllegalAddress"),
    ],
)
def test_a_layer_that_fails_on_one_rank_ends_all(machine, folder, fault, report):
    (folder / "faults.py").write_text(FAULT)
    (folder / "mlp.prototxt").write_text(MLP.replace('layer { name: "ip1"', LAYER % fault + 'layer { name: "ip1"'))
    log = ended(started(machine, folder, "-python", "."), None, machine.seconds)
    assert re.search(report, log), log
    assert_the_last_snapshot_stands(folder)


@pytest.mark.parametrize("options", [[], ["-split", "stages=2"]], ids=["batch", "stages"])
def test_a_signal_stops_all_ranks_with_a_snapshot(machine, folder, options):
    process = started(machine, folder, *options)
    process.send_signal(signal.SIGTERM)
    ended(process, 128 + signal.SIGTERM, machine.seconds)
    assert registry.read(folder / "run_run").reason == "stopped by a signal: SIGTERM"
    assert_the_last_snapshot_stands(folder)


# Faults of the stand-in's NCCL


@pytest.mark.host
@pytest.mark.parametrize(
    "fault, report",
    [
        ("plan", r"rank \d calls allReduce \d+ while rank \d calls allReduce \d+"),
        ("order", "rank 0 calls allReduce .* while rank 1 calls send 1"),
        ("resident", "makes? no progress|made no progress"),
    ],
)
def test_ranks_that_disagree_end_with_an_error(folder, fault, report):
    """Sums of different lengths, a call before its turn, and a kernel that gets no place on the GPU."""
    (folder / "solver.prototxt").write_text(TEN)
    process = Machine(installed.environment(), 1).start("-hang_seconds", "2", gpus=2, STAND_IN_FAULT=fault)
    assert re.search(report, ended(process))


# What -gpu 0,0 needs


@pytest.mark.slow
@pytest.mark.parametrize(
    "shared, version, report",
    [
        (
            False,
            23203,
            "-gpu names GPU 0 more than once; expected each GPU once, found 0,0; .*NCCL_MULTI_RANK_GPU_ENABLE=1",
        ),
        (
            True,
            22809,
            r"found 0,0, and NCCL 2\.28\.9; .*let CAFFELITE_NCCL name the libnccl.so.2 of NCCL 2.30 or later",
        ),
    ],
)
def test_several_ranks_on_one_gpu_have_to_be_permitted(folder, shared, version, report):
    (folder / "solver.prototxt").write_text(TEN)
    environment = installed.environment(1, version, shared)
    environment.pop("NCCL_MULTI_RANK_GPU_ENABLE", None) if not shared else None
    log = Machine(environment, 1).train(gpus=2, status=2)
    assert re.search(report, log) and "Traceback" not in log


def test_ranks_on_one_gpu_of_a_machine_without_cupy(folder):
    (folder / "solver.prototxt").write_text(TEN)
    without = {"PYTHONPATH": str(installed.ROOT), "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed")
    log = Machine({**os.environ, **without}, 1).train(gpus=2, status=2)
    assert "this machine has no NVIDIA GPU" in log or "caffelite[cuda" in log
