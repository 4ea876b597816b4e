"""cuDNN's plans for convolutions can be built for a GPU, with nothing but its properties at hand."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import reference
from devices.host import libraries, plans
from devices.host.backend import HostBackend, decoded, encoded

from caffelite.devices import Window, ops
from caffelite.devices.cache import ChoiceCache
from caffelite.devices.cuda import GPU, cudnn

GPUS = {path.stem: path.read_text() for path in Path(__file__).parent.glob("host/*.json")}
H100 = GPUS["h100"]
OTHERS = [("a100", "float32"), ("a100", "float16"), ("a100", "uint16"), ("t4", "float32"), ("t4", "float16")]
SHAPES = {  # x, y, window, groups
    "LeNet conv1": ((64, 1, 28, 28), (64, 20, 24, 24), Window((5, 5)), 1),
    "LeNet conv2": ((64, 20, 12, 12), (64, 50, 8, 8), Window((5, 5)), 1),
    "AlexNet conv2": ((32, 96, 27, 27), (32, 256, 27, 27), Window((5, 5), pad=(2, 2)), 2),
    "stride, pad, dilation": ((2, 3, 9, 10), (2, 4, 4, 6), Window((3, 2), (2, 2), (1, 1), (2, 1)), 1),
    "1x1": ((1, 8, 5, 7), (1, 3, 5, 7), Window((1, 1)), 1),
}


@functools.cache
def builds() -> bool:
    """Whether cuDNN is installed; it then builds plans, with a driver's library or a stand-in for one."""
    if cudnn.frontend() is None:
        return False
    libraries.driver()
    return True


def problem(case, kind, *epilogue, **how):
    x, y, window, groups = SHAPES[case]
    return cudnn.Problem(kind, x, (y[1], x[1] // groups, *window.kernel), y, window, *epilogue, **how)


def plan(*what, strict=False, deterministic=False, properties=H100, **how):
    return cudnn.Plan(problem(*what, **how), strict, deterministic, properties=properties)


@pytest.fixture
def needed():
    if not builds():
        libraries.lacking("nvidia-cudnn-frontend or cuDNN is not installed")


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize(
    "kind, epilogue", [("forward", ()), ("forward", (True,)), ("forward", (True, True)), ("dgrad", ()), ("wgrad", ())]
)
@pytest.mark.parametrize("numbers, last", [("float32", False), ("float32", True), ("float16", True), ("uint16", True)])
def test_plans_for_an_h100(needed, case, kind, epilogue, numbers, last):
    actual = plan(case, kind, *epilogue, dtype=numbers, last=last)
    assert any(map(actual.build, actual.names)) and 0 <= actual.workspace <= cudnn.WORKSPACE
    assert len(actual.inputs) == 2 + (epilogue[:1] == (True,))


@pytest.mark.parametrize(
    "gpu, numbers", [("a100", "float32"), ("a100", "float16"), ("a100", "uint16"), ("t4", "float32"), ("t4", "float16")]
)
@pytest.mark.parametrize("case", ["LeNet conv2", "AlexNet conv2", "1x1"])
@pytest.mark.parametrize("kind", ["forward", "dgrad", "wgrad"])
def test_plans_for_other_gpus(needed, gpu, numbers, case, kind):
    actual = plan(case, kind, properties=GPUS[gpu], dtype=numbers, last=numbers != "float32")
    assert any(map(actual.build, actual.names)) and 0 <= actual.workspace <= cudnn.WORKSPACE


@pytest.mark.parametrize("gpu, numbers", [("h100", n) for n in ("float32", "float16", "uint16")] + OTHERS[:3])
@pytest.mark.parametrize(
    "kind, epilogue", [("forward", (True, True)), ("forward", (False, False)), ("dgrad", ()), ("wgrad", ())]
)
def test_plans_for_slices_of_wider_rows(needed, gpu, numbers, kind, epilogue):
    """A bottom of a concatenation in GoogLeNet: 128 of its top's 256 channels."""
    x, y = (16, 96, 28, 28), (16, 128, 28, 28)
    problem = cudnn.Problem(
        kind, x, (128, 96, 3, 3), y, Window((3, 3), pad=(1, 1)), *epilogue, last=True, dtype=numbers, pitch=256
    )
    actual = cudnn.Plan(problem, properties=GPUS[gpu])
    assert any(map(actual.build, actual.names)) and 0 <= actual.workspace <= cudnn.WORKSPACE
    sliced = actual.inputs[kind == "wgrad"] if kind != "forward" else actual.output
    assert sliced.get_stride() == [256 * 28 * 28, 1, 256 * 28, 256]
    assert problem.words().endswith("pitch256") and "pitch" not in problem._replace(pitch=0).words()


def test_a_wrong_shape_has_no_plan(needed):
    wrong = cudnn.Problem("forward", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 4, 4), Window((3, 3)))
    with pytest.raises((RuntimeError, cudnn.frontend().cudnnGraphNotSupportedError)):
        cudnn.Plan(wrong, properties=H100)


def chosen(*what, **how) -> set[str]:
    """Which of the plans that cuDNN proposes may be chosen."""
    actual = plan(*what, **how)
    return {name for name in actual.names if actual.build(name)}


def test_strict_float32_and_deterministic_runs(needed):
    """Some of the plans for a large convolution use tensor cores, some of its gradients vary from run to run; those can
    be left out."""
    assert set() < chosen("AlexNet conv2", "forward", strict=True) < chosen("AlexNet conv2", "forward")
    assert set() < chosen("AlexNet conv2", "wgrad", deterministic=True) < chosen("AlexNet conv2", "wgrad")


def test_a_limit_of_workspace(needed, monkeypatch):
    every = chosen("AlexNet conv2", "wgrad")
    monkeypatch.setattr(cudnn, "WORKSPACE", 1 << 20)
    assert set() < chosen("AlexNet conv2", "wgrad") < every


# The choice by the clock


@pytest.mark.parametrize(
    "taken, best",
    [([3, 1, 2], "b"), ([1, 1.2, 0.9], "c"), ([None, 2, 1], "c"), ([1, None, None], "a"), ([None] * 3, None)],
)
def test_the_fastest_plan(taken, best):
    """Slow ones are run twice and left; those that do not run (None) are passed over."""
    ran, times = [], dict(zip("abc", taken, strict=True))

    def lap(name, count):
        ran.append((name, count))
        if times[name] is None:
            raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")
        return times[name]

    failures = []
    actual = cudnn.laps(list("abc"), lap, failures)
    assert min(actual, key=actual.__getitem__, default=None) == best
    assert [text[0] for text in failures] == [name for name in "abc" if times[name] is None]
    if taken == [3, 1, 2]:
        assert [name for name, _ in ran] == ["a"] * 5 + ["b"] * 5 + ["c"] * 2 and ran[7][1] == 2


class Clock(HostBackend):
    """A backend with a model and a clock. times(name): how long a plan takes; suits: the names of plans whose ReLU
    passes infinity on, None for all."""

    def __init__(self, times, suits=None):
        super().__init__()
        self.times, self.suits, self.laps, self.ran = times, suits, 0, []

    def model(self):
        return "NVIDIA H100 80GB/HBM3"

    def driver(self):
        return "13000"

    def lap(self, run, times):
        self.laps += 1
        run()
        return self.times(self.ran[-1])


CACHE = f"cudnn-NVIDIA-H100-80GB-HBM3-{cudnn.version()}-driver-13000.json"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAFFELITE_TUNE", raising=False)
    return tmp_path


def test_the_best_plan_of_each_engine_is_tried_first():
    ranked = ["eng68_k2=5", "eng68_k2=1", "eng34_k0=79", "eng68_k2=0", "eng30_k2=5", "eng34_k0=13"]
    expected = ["eng68_k2=5", "eng34_k0=79", "eng30_k2=5", "eng68_k2=1", "eng68_k2=0", "eng34_k0=13"]
    assert cudnn.engines_first(ranked) == expected
    assert cudnn.engines_first(["eng0"]) == ["eng0"] and cudnn.engines_first([]) == []


def built(plan) -> str:
    """The name of the plan that was built last."""
    return next(name for name, index in plan.names.items() if index == plan._index)


class Plan(cudnn.Plan):
    """A plan of an H100's, which gives its bias instead of a convolution. handle: the backend."""

    def __init__(self, *what, properties=H100, **how):
        super().__init__(*what, properties=properties, **how)

    def run(self, inputs, output, workspace):
        self._handle.ran.append(built(self))
        suits = self._handle.suits is None or built(self) in self._handle.suits
        output.fill(inputs[-1].flat[0] if suits else 0)


class Engine(cudnn.Engine):
    """cuDNN's plans without alternatives to them."""

    def handle(self):
        return self._backend

    def _alternatives(self, *_):
        return {}


@pytest.fixture
def for_an_h100(needed, monkeypatch):
    monkeypatch.setattr(cudnn, "Plan", Plan)


def test_plans_are_timed_once(for_an_h100, cache, caplog):
    """The choice is kept on disk, by device, version and driver, and the next process builds that plan only."""
    task = problem("AlexNet conv2", "wgrad", last=True)
    names = list(plan("AlexNet conv2", "wgrad", last=True).names)
    clock = Clock(lambda name: 1.0 if name == names[3] else 2.0)
    mine = Engine(clock)
    first = mine.plan(task)
    assert built(first) == names[3] and clock.laps and mine.plan(task) is first
    (path,) = cache.glob("*.json")
    assert path.name == CACHE and json.loads(path.read_text())[task.words()] == names[3]
    clock.laps = 0
    assert built(Engine(clock).plan(task)) == names[3] and not clock.laps
    Engine(clock, strict=True).plan(task)
    assert clock.laps and len(list(cache.glob("*.json"))) == 2  # choices of other precisions are others


@pytest.mark.parametrize(
    "text, said", [("{", "damaged"), ("[1]", "damaged"), ('{"KEY": 3}', "damaged"), ('{"KEY": "eng0_gone"}', "Timing")]
)
def test_a_cache_that_does_not_fit(for_an_h100, cache, caplog, text, said):
    task = problem("1x1", "forward")
    cudnn._log_timing.cache_clear()
    path = cache / CACHE
    path.write_text(text.replace("KEY", task.words()))
    with caplog.at_level("INFO", "caffelite"):
        Engine(Clock(lambda name: 1.0)).plan(task)
    assert said in caplog.text and json.loads(path.read_text())[task.words()] in plan("1x1", "forward").names


def test_a_cache_that_cannot_be_written(for_an_h100, monkeypatch, cache, caplog):
    mine = Engine(Clock(lambda name: 1.0))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with caplog.at_level("INFO", "caffelite"):
        assert mine.plan(problem("1x1", "forward"))
    assert "No space left on device" in caplog.text


def test_processes_share_a_cache(cache):
    one, other = ChoiceCache("notes.json"), ChoiceCache("notes.json")
    one.put("a", "1")
    other.put("b", "2")
    assert json.loads((cache / "notes.json").read_text()) == {"a": "1", "b": "2"}
    assert ChoiceCache("notes.json").get("b") == "2"


@pytest.mark.parametrize("tune, deterministic", [("1", True), (None, True), ("0", False)])
def test_cudnn_ranks_where_no_clock_may(for_an_h100, cache, monkeypatch, tune, deterministic):
    """No clock chooses where runs must be equal, or where a user forbids it; nothing is kept."""
    if tune is not None:
        monkeypatch.setenv("CAFFELITE_TUNE", tune)
    task, clock = problem("AlexNet conv2", "dgrad"), Clock(None)
    mine = Engine(clock, deterministic=deterministic)
    ranked = plan("AlexNet conv2", "dgrad", deterministic=deterministic)
    assert built(mine.plan(task)) == next(filter(ranked.build, ranked.names))
    assert not clock.laps and not list(cache.iterdir())


def test_plans_that_do_not_suit(for_an_h100, cache):
    """They are not timed."""
    task = problem("1x1", "forward", True, True)
    second = list(plan("1x1", "forward", True, True).names)[1]
    mine = Engine(clock := Clock(lambda name: 1.0, [second]))
    assert built(mine.plan(task)) == second and clock.laps == 5
    other = problem("LeNet conv1", "forward", True, True)
    clock.ran.clear()
    assert mine.plan(other) is None
    assert clock.ran == [name for name in clock.ran if name not in clock.suits]
    assert set(clock.ran) == chosen("LeNet conv1", "forward", True, True)
    assert built(Engine(clock, deterministic=True).plan(task)) == second


# Convolutions by such plans


ALL = {(kind, b, r) for kind in ("forward", "dgrad", "wgrad") for b in (False, True) for r in (False, True)}
REFUSED = {"none": set(), "ReLUs": {k for k in ALL if k[2]}, "biases": {k for k in ALL if k[1]}}


@pytest.mark.host
@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("last, numbers", [(False, "float32"), (True, "float32"), (True, "float16"), (True, "uint16")])
def test_convolution_by_plans(seed, refused, last, numbers):
    """Whatever cuDNN has plans for, the results are a convolution's: layout, type, bias, ReLU, sums of gradients are
    made up for."""
    dev, rng = plans.device(refused=REFUSED[refused]), np.random.default_rng(seed)
    window, groups = Window((3, 2), (1, 2), (1, 0)), 2
    x, w, b = (rng.normal(size=s) for s in ((2, 4, 5, 6), (6, 2, 3, 2), (6,)))
    w, b = w.astype(np.float32), b.astype(np.float32)
    dy = rng.normal(size=reference.convolution(x, w, None, window, groups).shape)
    x, dy = (decoded(encoded(v, np.dtype(numbers))) for v in (x, dy))  # what both sides get
    half = numbers != "float32"
    tolerance = {"float32": 1e-4, "float16": 5e-3, "uint16": 4e-2}[numbers]

    def stored(values):
        return encoded(np.ascontiguousarray(values.transpose(0, 2, 3, 1) if last else values), np.dtype(numbers))

    def blank(shape):
        return dev.empty(stored(np.zeros(shape)).shape, numbers)

    def check(array, values, scale=1):
        values = stored_like(values)
        np.testing.assert_allclose(decoded(array), values, rtol=tolerance, atol=tolerance * scale * 4)

    def stored_like(values):
        return values.transpose(0, 2, 3, 1) if last and values.ndim == 4 and values.shape != w.shape else values

    op, y = dev.build(ops.Convolution(x.shape, dy.shape, window, groups, last, half)), blank(dy.shape)
    for bias, slope in [(b, None), (b, 0.0), (b, 0.1), (None, None), (None, 0.0)]:
        op.forward(stored(x), w, bias, y, slope)
        check(y, reference.leaky(reference.convolution(x, w, bias, window, groups), slope))
    expected = reference.convolution_backward(x, w, dy, window, groups)
    actual = blank(x.shape), dev.empty(w.shape), dev.empty(6)
    for times in (1, 2):
        op.backward(stored(x), w, stored(dy), *actual, times == 2, times == 2)
        for there, value, scale in zip(actual, expected, (1, times, times), strict=True):
            check(there, scale * value, scale)
    op.backward(stored(x), w, stored(dy), None, None, None)


@pytest.mark.host
@pytest.mark.parametrize("m, c, p", [(5, 3, 4), (2, 7, 1), (3, 1, 6)])
@pytest.mark.parametrize("numbers", ["float32", "float16", "uint16"])
def test_weights_there_and_back(seed, m, c, p, numbers):
    dev, w = GPU(0, "float32", HostBackend()), np.random.default_rng(seed).normal(size=(m, c, p)).astype(np.float32)
    bias, packed, packed_bias, back = w[:, 0, 0].copy(), dev.empty((m, p, c), numbers), dev.empty(m, numbers), w.copy()
    dev.kernel("weights", "pack_weights", w.size, m, c, p)(w, bias, packed, packed_bias)
    np.testing.assert_array_equal(packed, encoded(w.transpose(0, 2, 1), np.dtype(numbers)))
    np.testing.assert_array_equal(packed_bias, encoded(bias, np.dtype(numbers)))
    unpack = dev.kernel("weights", "unpack_weights", w.size, m, c, p)
    for add in (True, False):
        unpack(packed, back, add)
        np.testing.assert_array_equal(back, decoded(packed).transpose(0, 2, 1).astype(np.float32) + (w if add else 0))


@pytest.mark.host
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("hides", ["", "nan", "inf"])
@pytest.mark.parametrize("precision, numbers", [("tf32", "float32"), ("fp16", "float16"), ("bf16", "uint16")])
def test_nan_and_infinity_are_not_hidden(hides, biased, precision, numbers):
    """A ReLU that would make 0 of NaN, or a number of infinity, is not fused."""
    dev = plans.device(precision, hides=hides)
    x, w, b = np.ones((1, 2, 2, 3)), np.ones((1, 3, 1, 1), np.float32), np.full(1, -4, np.float32)
    x[0, 0, 0, 0] = np.nan
    y = dev.empty((1, 2, 2, 1), numbers)
    op = dev.build(ops.Convolution((1, 3, 2, 2), (1, 1, 2, 2), Window((1, 1)), channels_last=True))
    for _ in range(2):
        op.forward(encoded(x, np.dtype(numbers)), w, b if biased else None, y, 0.0)
        np.testing.assert_array_equal(decoded(y).reshape(-1), [np.nan] + 3 * [0 if biased else 3])
    fused = [problem.rectified for (problem, _), plan in dev.engine._plans.items() if plan]
    assert fused == [biased and not hides]
