"""Which of cuDNN's plans is chosen, kept on disk and reported, by stand-ins for cuDNN and its clock."""

import json
from types import SimpleNamespace

import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from textnet import bind

from caffelite.devices import Window, ops
from caffelite.devices.cuda import convolution, cudnn
from caffelite.errors import CaffeliteError

TASK = cudnn.Problem("forward", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 3, 3), Window((3, 3)))


REAL = cudnn.Plan


class NotSupported(Exception):
    pass


class Offered:
    """cuDNN's plans: ``offers`` has by name what happens when one is finalised, an exception or nothing."""

    offers: dict = {}

    def __init__(self, problem, strict, deterministic, handle):
        if isinstance(self.offers, Exception):
            raise self.offers
        self.names, self.failure = dict.fromkeys(self.offers, 0), ""

    def build(self, name):
        self.wanted = name
        return REAL.build(self, name)

    @property
    def _graph(self):
        return self

    def build_plan_at_index(self, index):
        if self.offers[self.wanted]:
            raise self.offers[self.wanted]

    def get_workspace_size_plan_at_index(self, index):
        return 0

    def run(self, inputs, output, workspace):
        return self.wanted


class Clock(HostBackend):
    """A backend whose clock takes from ``times`` how long a plan of a name runs: milliseconds, or an exception."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def model(self):
        return "H100"

    def driver(self):
        return "13000"

    def lap(self, run, times):
        name = run()
        if isinstance(self.times[name], Exception):
            raise self.times[name]
        return self.times[name]


@pytest.fixture
def offer(monkeypatch, tmp_path):
    """offer(plans, times): an engine that is offered these plans, with the cache of the engines before it."""
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    monkeypatch.setenv("CAFFELITE_TUNE", "1")
    monkeypatch.setattr(cudnn, "frontend", lambda: SimpleNamespace(cudnnGraphNotSupportedError=NotSupported))
    monkeypatch.setattr(cudnn, "version", lambda: "9.28.0")

    def engine(offers, times):
        monkeypatch.setattr(cudnn, "Plan", type("Plan", (Offered,), {"offers": offers}))
        actual = cudnn.Engine(Clock(times))
        actual.handle = lambda: 1
        return actual

    return engine


def kept(tmp_path) -> dict:
    return next((json.loads(path.read_text()) for path in tmp_path.iterdir()), {})


def chosen(engine, task=TASK):
    """The name of the plan that an engine takes."""
    plan = engine.plan(task)
    return plan and plan.wanted


OUT_OF_MEMORY = MemoryError("Out of memory allocating 536,870,912 bytes")


@pytest.mark.parametrize("reason", [RuntimeError("CUDNN_STATUS_INTERNAL_ERROR"), NotSupported("no")])
def test_the_first_plan_that_can_be_built_is_taken(offer, tmp_path, monkeypatch, reason):
    monkeypatch.delenv("CAFFELITE_TUNE")
    assert chosen(offer({"a": reason, "b": None, "c": None}, {})) == "b" and kept(tmp_path) == {}


@pytest.mark.parametrize(
    "offers, times, reason",
    [
        ({"a": None}, {"a": OUT_OF_MEMORY}, "Out of memory"),
        ({"a": RuntimeError("CUDNN_STATUS_INTERNAL_ERROR: nvrtc: cannot open cuda_fp16.h")}, {}, "nvrtc"),
        (RuntimeError("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"), {}, "SUBLIBRARY"),
        ({"a": NotSupported("no")}, {}, "no plan that suits"),
    ],
)
def test_without_a_plan_the_reason_is_known_and_nothing_kept(offer, tmp_path, offers, times, reason):
    engine = offer(offers, times)
    assert chosen(engine) is None and reason in engine.why_none(TASK)
    assert kept(tmp_path) == {}
    assert chosen(offer({"a": None}, {"a": 1.0})) == "a", "another time it runs"
    assert kept(tmp_path) == {TASK.words(): "a"}


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("CUDNN_STATUS_EXECUTION_FAILED"),
        *(
            kind(f"CUDNN_STATUS_NOT_SUPPORTED_{word}")
            for kind in (NotSupported, RuntimeError)
            for word in (
                "RUNTIME_PREREQUISITE_MISSING",
                "SUBLIBRARY_UNAVAILABLE",
                "INCOMPATIBLE_CUDA_DRIVER",
                "INCOMPATIBLE_CUDART",
            )
        ),
    ],
)
def test_a_plan_that_may_run_another_time_keeps_no_choice(offer, tmp_path, failure):
    """It serves this run; the plan that failed may be the fastest."""
    assert chosen(offer({"a": failure, "b": None}, {"b": 2.0})) == "b"
    assert kept(tmp_path) == {}
    assert chosen(offer({"a": None, "b": None}, {"a": 1.0, "b": 2.0})) == "a"


def test_choices_of_another_driver_are_others(offer, tmp_path, monkeypatch):
    chosen(offer({"a": None}, {"a": 1.0}))
    monkeypatch.setattr(Clock, "driver", lambda self: "13010")
    assert chosen(offer({"a": None, "b": None}, {"a": 2.0, "b": 1.0})) == "b"
    assert {path.name for path in tmp_path.iterdir()} == {f"cudnn-H100-9.28.0-driver-{d}.json" for d in (13000, 13010)}


def test_a_plan_that_is_not_supported_does_not_count(offer, tmp_path):
    for status in ("CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"):
        assert chosen(offer({"a": NotSupported(status), "b": None}, {"b": 2.0})) == "b"
    assert kept(tmp_path) == {TASK.words(): "b"}


def test_a_check_that_fails_is_not_kept(offer, tmp_path, monkeypatch):
    def run(*arrays):
        raise OUT_OF_MEMORY

    engine = offer({"a": None}, {"a": 1.0})
    monkeypatch.setattr(Offered, "run", run)
    assert chosen(engine, TASK._replace(biased=True, rectified=True)) is None and kept(tmp_path) == {}


def test_a_kept_plan_that_fails_now_stays_kept(offer, tmp_path):
    chosen(offer({"a": None, "b": None}, {"a": 1.0, "b": 2.0}))
    assert chosen(offer({"a": RuntimeError("CUDNN_STATUS_INTERNAL_ERROR"), "b": None}, {"b": 2.0})) == "b"
    assert kept(tmp_path) == {TASK.words(): "a"}


# What is reported


NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }
layer { name: "conv7" type: "Convolution" bottom: "data" top: "conv7"
  convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "up" type: "Deconvolution" bottom: "conv7" top: "up" convolution_param { num_output: 2 kernel_size: 2 } }
"""
KINDS = convolution.PASSES


@pytest.mark.host
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_without_a_plan_is_an_error(kind):
    """With what of it and why."""
    dev = plans.device("fp32", refused={(kind, biased, rectified) for biased in (0, 1) for rectified in (0, 1)})
    shape, window = (2, 3, 6, 6), Window((3, 3))
    op = dev.build(ops.Convolution(shape, (2, 4, 4, 4), window, name="conv7"))
    x, w, b, y = dev.zeros(shape), dev.zeros((4, 3, 3, 3)), dev.zeros(4), dev.zeros((2, 4, 4, 4))
    words = f'layer "conv7": cuDNN has no plan for {KINDS[kind]}; found no plan; update cuDNN'
    with pytest.raises(CaffeliteError, match=words):
        op.forward(x, w, b, y)
        op.backward(x, w, y, dev.zeros(shape), dev.zeros(w.shape), dev.zeros(4))


@pytest.mark.host
@pytest.mark.parametrize(("kind", "name"), [("forward", "conv7"), ("dgrad", "up")])
def test_layers_tell_devices_their_names(kind, name):
    dev = plans.device("fp32", refused={(kind, b, r) for b in (0, 1) for r in (0, 1)})
    with pytest.raises(CaffeliteError, match=f'layer "{name}": cuDNN has no plan for {KINDS[kind]}'):
        bind(NET, dev=dev).forward()
