"""However a job of several GPUs ends, its graphs are destroyed before its communicator: NCCL's commDestroy waits for
them for ever."""

import contextlib
import os
import signal

import numba
import numpy as np
import pytest
from devices.host.backend import HostBackend
from devices.host.cupy import stand_in
from devices.host.ranks import HostSums, TwinCommunicator

from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError
from caffelite.parallel import session
from caffelite.parallel.transports import choice, star
from caffelite.runs.launch import Signals

pytestmark = pytest.mark.host

TEXT = """
net: "everything.prototxt" base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 30 display: 10 snapshot_prefix: "s"
random_seed: 5
"""


class Control:
    """Rank 0 of two; the other one says what it says."""

    rank, size = 0, 2

    def gather(self, value):
        return [value, value]

    def close(self): ...


class Watched:
    mark = None

    def __init__(self, *_):
        self.words = ""

    def address(self):
        return 1, "token"

    def waiting(self, what):
        return contextlib.nullcontext()

    def report_error(self, text):
        self.words = text

    def join(self, *_): ...

    name_layers = done = join


class Communicator(TwinCommunicator):
    """It logs how it ends and how many graphs are alive then."""

    def __init__(self, backend):
        self.backend, self.ends, self.error = backend, [], None

    def check_async_error(self):
        if self.error:
            raise self.error

    def _ended(self, how):
        self.ends.append((how, sum(not graph.closed for graph in self.backend.graphs)))

    def destroy(self):
        self._ended("destroyed")

    def abort(self):
        self._ended("aborted")


@pytest.fixture
def job(monkeypatch):
    """(device, communicator) of a job of two processes that caffelite started."""
    backend = HostBackend("late", "late")
    dev, communicator = GPU(0, "float32", backend), Communicator(backend)
    monkeypatch.setattr(star, "inherited", lambda: 2)
    monkeypatch.setattr(star, "Star", Control)
    module = __import__("caffelite.parallel.group", fromlist=["session"])
    monkeypatch.setattr(module, "Watchdog", Watched)

    def transport(control, dev, half):
        dev.sums_stream.ptr = dev.sums_stream
        modules = stand_in(communicator, None)
        return HostSums(backend.stream, dev.sums_stream, 0, 2, control.gather, dev.drop_graphs, **modules)

    monkeypatch.setattr(choice, "all_reduce", transport)
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):  # a session sets them where they are not
        monkeypatch.setenv(variable, str(numba.config.NUMBA_NUM_THREADS))
    for variable in module.CUDA_DEFAULTS:
        monkeypatch.setenv(variable, "")  # restored after the test
        monkeypatch.delenv(variable)
    return dev, communicator


def run(make, job, at_12) -> Signals:
    """Trains; at_12(solver) is called after iteration 12."""
    with Signals(report=None) as signals, session(20) as comm:
        solver = make(TEXT, device=job[0], comm=comm, requests=signals.requests)
        solver.solve(lambda solver, rate: at_12(solver) if solver.iteration == 12 else None)
    assert not solver.learning.requests.snapshot
    return signals


def lives(job) -> int:
    graphs = job[0].backend.graphs
    assert graphs, "nothing was captured, so this shows nothing"
    return sum(not graph.closed for graph in graphs)


def test_a_job_sets_what_several_communicators_need(job, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16")
    with session(20):
        assert os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] == "1"
        assert os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] == "16", "the user's"


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_a_requested_end_closes_communicators(folder, make, job, number):
    alive = []

    def at_12(solver):
        alive.append(lives(job))
        if number:
            os.kill(os.getpid(), number)

    signals = run(make, job, at_12)
    assert alive[0] and job[1].ends == [("destroyed", 0)]
    assert signals.status == (128 + 15 if number == signal.SIGTERM else 0)


def raises(solver):
    raise RuntimeError("a mistake of ours")


def breaks_off(solver):
    raise KeyboardInterrupt


def loses_numbers(solver):
    solver.dev.upload(solver.net.params.data, np.array(np.nan))


@pytest.mark.parametrize(
    "at_12, error", [(raises, RuntimeError), (breaks_off, KeyboardInterrupt), (loses_numbers, CaffeliteError)]
)
def test_a_failure_aborts_communicators(folder, make, job, at_12, error):
    with pytest.raises(error):
        run(make, job, at_12)
    assert not lives(job) and job[1].ends == [("aborted", 0)]


def test_a_lost_rank_ends_the_run(folder, make, job):
    """NCCL reports it to the others, in whatever iteration they are."""

    def at_12(solver):
        job[1].error = RuntimeError("NCCL_ERROR_REMOTE_ERROR: remote process exited or there was a network error")

    with pytest.raises(RuntimeError, match="remote process exited"):
        run(make, job, at_12)
    assert not lives(job) and job[1].ends == [("aborted", 0)]
