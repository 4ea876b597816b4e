"""GPUs train as the CPU does: two processes on one, by way of MPI, and one process on each of several, over NCCL."""

import subprocess

import jobs
import pytest
from launching import COMMAND, SOLVER, environment, finish, mpirun, needs_mpi

from caffelite.devices.cuda import count

AS_ONE = ["-scaling", "strong", "-precision", "fp32"]


@pytest.fixture
def solver(folder):
    (folder / "solver.prototxt").write_text(SOLVER + 'snapshot_prefix: "run" display: 10')
    return folder


@pytest.mark.gpu
@needs_mpi
@pytest.mark.mpi
def test_two_processes_on_one_gpu(solver):
    if not count():
        pytest.skip("no usable GPU")
    assert "2 processes (MPI" in finish(mpirun(2, *COMMAND, "-gpu", "0", *AS_ONE, cwd=solver))
    jobs.assert_as_one(solver / "run_iter_50.caffemodel", atol=1e-4)


@pytest.mark.multi_gpu
def test_two_gpus(solver):
    if count() < 2:
        pytest.skip("fewer than two usable GPUs")
    done = subprocess.run(
        [*COMMAND, "-gpu", "0,1", *AS_ONE], env=environment(), cwd=solver, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stderr
    jobs.assert_as_one(solver / "run_iter_50.caffemodel", atol=1e-4)


@pytest.mark.multi_gpu
@pytest.mark.parametrize("split, gpus", [("stages=2", 2), ("shards=2", 2), ("stages=3", 3), ("stages=2,shards=2", 4)])
def test_a_net_over_gpus(solver, split, gpus):
    if count() < gpus:
        pytest.skip(f"fewer than {gpus} usable GPUs")
    numbers = ",".join(map(str, range(gpus)))
    command = [*COMMAND, "-gpu", numbers, "-split", split, *AS_ONE]
    done = subprocess.run(command, env=environment(), cwd=solver, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    jobs.assert_as_one(solver / "run_iter_50.caffemodel", atol=1e-4)
