"""Which of cuDNN's plans is chosen, kept on disk and reported, by stand-ins for cuDNN and its clock."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from devices.host import plans
from devices.host.backend import HostBackend, decoded, encoded
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
    monkeypatch.delenv("CAFFELITE_TUNE", raising=False)
    monkeypatch.setattr(cudnn, "frontend", lambda: SimpleNamespace(cudnnGraphNotSupportedError=NotSupported))
    monkeypatch.setattr(cudnn, "version", lambda: "9.28.0")
    monkeypatch.setattr(cudnn.Turned, "run", lambda *_: "turned")

    def engine(offers, times):
        monkeypatch.setattr(cudnn, "Plan", type("Plan", (Offered,), {"offers": offers}))
        actual = cudnn.Engine(Clock({"turned": 3.0} | times))
        actual.handle = lambda: 1
        return actual

    return engine


def kept(tmp_path) -> dict:
    return next((json.loads(path.read_text()) for path in tmp_path.glob("*.json")), {})


def chosen(engine, task=TASK):
    """The name of the plan that an engine takes."""
    plan = engine.plan(task)
    return plan and plan.wanted


OUT_OF_MEMORY = MemoryError("Out of memory allocating 536,870,912 bytes")


@pytest.mark.parametrize("reason", [RuntimeError("CUDNN_STATUS_INTERNAL_ERROR"), NotSupported("no")])
def test_the_first_plan_that_can_be_built_is_taken(offer, tmp_path, monkeypatch, reason):
    monkeypatch.setenv("CAFFELITE_TUNE", "0")
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
    assert {path.name for path in tmp_path.glob("*.json")} == {
        f"cudnn-H100-9.28.0-driver-{d}.json" for d in (13000, 13010)
    }


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


# Grouped convolutions


GROUPED = TASK._replace(x=(2, 8, 5, 5), w=(16, 4, 3, 3), y=(2, 16, 3, 3))


@pytest.mark.parametrize("slices, name", [(0.5, "slices"), (2.0, "a")])
def test_a_plan_for_each_group_is_a_candidate(offer, tmp_path, monkeypatch, caplog, slices, name):
    """Timed as the others, kept by its name, and taken by the next process without timing."""
    taken = []
    monkeypatch.setattr(cudnn.Slices, "run", lambda self, *arrays: "slices")
    engine = offer({"a": None}, {"a": 1.0, "slices": slices})
    with caplog.at_level("INFO", "caffelite"):
        actual = engine.plan(GROUPED)
    assert isinstance(actual, cudnn.Slices) == (name == "slices")
    assert kept(tmp_path)[GROUPED.words()] == name
    times = f"a 1 ms, slices {slices:g} ms, turned a 3 ms"
    assert f"{GROUPED.words()}: {times}" in caplog.text
    assert f"{GROUPED.words()}: {name} ({times})" in engine.choices.described()
    again = offer({"a": None}, {})
    monkeypatch.setattr(Clock, "lap", lambda *_: taken.append(1))
    assert isinstance(again.plan(GROUPED), cudnn.Slices) == (name == "slices") and not taken
    assert f"{GROUPED.words()}: {name} (measured before)" in again.choices.described()


def test_groups_without_a_plan_take_one_for_each(offer, monkeypatch):
    engine = offer({"a": None}, {"a": 1.0})
    opened = engine.open

    def refuse(problem):
        if problem.groups > 1:
            raise NotSupported("no")
        return opened(problem)

    monkeypatch.setattr(engine, "open", refuse)
    assert isinstance(engine.plan(GROUPED), cudnn.Slices)
    engine.choices = None
    assert isinstance(engine.plan(GROUPED._replace(kind="dgrad")), cudnn.Slices)
    assert engine.plan(GROUPED._replace(w=(18, 4, 3, 3), y=(2, 18, 3, 3))) is None, "36 bytes do not begin at 16"
    assert cudnn.Slices.of_group(TASK) is None


@pytest.mark.host
@pytest.mark.parametrize("last, numbers", [(False, "float32"), (True, "float32"), (True, "float16"), (True, "uint16")])
def test_groups_by_slices(seed, last, numbers):
    """The results are the grouped convolution's: whatever the layout and the type, with bias and ReLU, also in a slice
    of wider rows."""
    dev, rng, window, half = (
        plans.device(refused={"groups"}),
        np.random.default_rng(seed),
        Window((3, 3)),
        numbers != "float32",
    )
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 16, 5, 6), (32, 8, 3, 3), (32,)))
    shape = reference.convolution(x, w, None, window, 2).shape
    x, dy = (decoded(encoded(v, np.dtype(numbers))) for v in (x, rng.normal(size=shape)))

    def stored(values):
        return encoded(np.ascontiguousarray(values.transpose(0, 2, 3, 1) if last else values), np.dtype(numbers))

    def check(array, values):
        values = values.transpose(0, 2, 3, 1) if last and values.ndim == 4 and values.shape != w.shape else values
        scale = {"float32": 1e-4, "float16": 5e-3, "uint16": 4e-2}[numbers]
        np.testing.assert_allclose(decoded(array), values, rtol=scale, atol=8 * scale)

    op = dev.build(ops.Convolution(x.shape, shape, window, 2, last, half))
    y = stored(np.zeros(shape))
    wide = dev.empty((*y.shape[:3], 48), numbers)
    for out, bias, slope in [(y, b, 0.0), (y, None, None), *([(wide[..., 8:40], b, 0.0)] if last else [])]:
        op.forward(stored(x), w, bias, out, slope)
        check(out, reference.leaky(reference.convolution(x, w, bias, window, 2), slope))
    dx, dw, db = stored(np.zeros(x.shape)), dev.empty(w.shape), dev.empty(32)
    op.backward(stored(x), w, stored(dy), dx, dw, db)
    for array, values in zip((dx, dw, db), reference.convolution_backward(x, w, dy, window, 2), strict=True):
        check(array, values)
    assert any(isinstance(plan, cudnn.Slices) for plan in dev.engine._plans.values())


# The bound, and several processes


def test_timing_ends_after_its_seconds(offer, tmp_path, monkeypatch, caplog):
    """What remains takes cuDNN's first plan, and is timed by another process."""
    monkeypatch.setattr(cudnn, "SECONDS", 0.0)
    engine = offer({"a": None, "b": None}, {"a": 2.0, "b": 1.0})
    assert chosen(engine) == "a" and kept(tmp_path) == {}
    monkeypatch.setattr(cudnn, "SECONDS", 9.0)
    assert chosen(offer({"a": None, "b": None}, {"a": 2.0, "b": 1.0})) == "b"


def test_all_processes_take_the_first_one_s_choices(offer, tmp_path):
    """Though each measures another one as the fastest."""
    first, other = ({"a": x, "b": 3.0 - x} for x in (1.0, 2.0))
    said = []
    engine = offer({"a": None, "b": None}, first)
    with engine.choices.shared(0, lambda value: said.append(value) or [value]):
        assert chosen(engine) == "a"
    next(tmp_path.glob("*.json")).unlink()
    engine = offer({"a": None, "b": None}, other)
    with engine.choices.shared(1, lambda value: [said[0], value]):
        assert chosen(engine) == "a" and not kept(tmp_path)
    assert chosen(offer({"a": None, "b": None}, other)) == "b"
    assert engine.choices.recorded() == [f"{TASK.words()}: a"]


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
