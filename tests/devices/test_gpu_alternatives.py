"""What solves a convolution beside cuDNN's plans, by the stand-in: numbers, planted faults, and several processes."""

import numpy as np
import pytest
import reference
from devices.host import plans
from devices.host.backend import HostBackend, decoded, encoded
from devices.host.ranks import one_at_a_time, run_ranks
from textnet import bind, feed, inputs, run, wired

from caffelite.devices import Window
from caffelite.devices.cuda import cudnn
from caffelite.devices.cuda.alternatives import Small, Turned

pytestmark = pytest.mark.host

WINDOWS = {  # groups, window
    "plain": (1, Window((3, 3))),
    "stride, pad, dilation": (1, Window((3, 2), (2, 1), (1, 2), (1, 2))),
    "groups": (2, Window((2, 3), pad=(0, 1))),
}


def problem(kind: str, case: str, last: bool, dtype: str = "float32") -> cudnn.Problem:
    groups, window = WINDOWS[case]
    x, w = (2, 4, 6, 7), (8, 4 // groups, *window.kernel)
    shape = reference.convolution(np.zeros(x), np.zeros(w), None, window, groups).shape
    epilogue = (True, True) if kind == "forward" else (False, False)
    return cudnn.Problem(kind, x, w, shape, window, *epilogue, last=last, dtype=dtype)


def turned(dev, task: cudnn.Problem, kind: type[Turned] = Turned) -> Turned:
    plan = dev.engine.open(Turned.of_other_layout(task))
    plan.build("one")
    return kind(dev.backend, task, plan)


def small(dev, task: cudnn.Problem) -> Small:
    assert Small.suits(task)
    return Small(dev.kernel, task)


def check(dev, task: cudnn.Problem, solver, rng, special: float = 0.0) -> None:
    """Whether a solver's output is the oracle's. special: one of the biases."""
    x, w, dy = (decoded(encoded(rng.normal(size=s), np.dtype(task.dtype))) for s in (task.x, task.w, task.y))
    b = decoded(encoded(rng.normal(size=task.w[0]), np.dtype(task.dtype)))
    b[0] += special

    def stored(values):
        return encoded(values.transpose(0, 2, 3, 1) if task.last else values, np.dtype(task.dtype)).copy()

    weights = stored(w).reshape(w.shape)
    if task.kind == "forward":
        given, output = (stored(x), weights, encoded(b, np.dtype(task.dtype))), stored(dy)
        expected = reference.leaky(reference.convolution(x, w, b, task.window, task.groups), 0)
    else:
        at = "dgrad wgrad".split().index(task.kind)
        given, output = ((stored(dy), weights), (stored(x), stored(dy)))[at], (stored(x), weights.copy())[at]
        expected = reference.convolution_backward(x, w, dy, task.window, task.groups)[at]
    output[...] = 99
    solver.run(given, output, dev.empty(solver.workspace + 1, np.uint8))
    actual = decoded(output).reshape(stored(expected).shape)
    scale = {"float32": 1e-5, "float16": 5e-3, "uint16": 4e-2}[task.dtype]
    np.testing.assert_allclose(actual, decoded(stored(expected)), rtol=scale, atol=8 * scale)
    for array in (*given, output):  # what a later run must not read
        array[...] = 0


@pytest.mark.parametrize("kind", ["forward", "dgrad", "wgrad"])
@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize(
    "make, last, dtype",
    [(small, False, "float32"), (turned, False, "float32"), (turned, True, "float32"), (turned, True, "uint16")],
)
def test_the_numbers_are_those_of_the_oracle(seed, kind, case, make, last, dtype):
    """Also in a second run, whose arrays and workspace are others."""
    dev, rng = plans.device("fp32"), np.random.default_rng(seed)
    task = problem(kind, case, last, dtype)
    solver = make(dev, task)
    for _ in range(2):
        check(dev, task, solver, rng)


def test_a_rectified_small_convolution_keeps_what_is_not_finite(seed):
    dev, task = plans.device("fp32"), problem("forward", "plain", False)
    for special in (np.nan, np.inf):
        check(dev, task, small(dev, task), np.random.default_rng(seed), special)


def test_what_is_no_problem_of_small_images():
    task = problem("forward", "plain", False)
    assert Small.suits(task)
    for other in ({"last": True}, {"x": (2, 4, 64, 64)}, {"y": (1 << 16, 8, 4, 5)}, {"pitch": 16}, {"x_pitch": 8}):
        assert not Small.suits(task._replace(**other)), other
    assert Turned.of_other_layout(task._replace(x=(2, 1, 6, 7), w=(1, 1, 3, 3), y=(2, 1, 4, 5))) is None


# Planted faults


LAST_COLUMN = {
    "forward": ("column >= g.w)", "column >= g.w - 1)"),
    "dgrad": ("right / sw >= ow)", "right / sw >= ow - 1)"),
    "wgrad": ("column < w)", "column < w - 1)"),
}


@pytest.mark.parametrize("kind", LAST_COLUMN)
def test_a_last_column_that_is_left_out_is_seen(seed, kind):
    class Faulty(HostBackend):
        def kernel(self, source, name):
            assert LAST_COLUMN[kind][0] in source
            return super().kernel(source.replace(*LAST_COLUMN[kind]), name)

    dev, task = plans.device("fp32", backend=Faulty()), problem(kind, "plain", False)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(dev, task, small(dev, task), np.random.default_rng(seed))


def test_a_pointer_to_the_arrays_of_an_earlier_run_is_seen(seed):
    class Stale(Turned):
        arrays = None

        def run(self, *arrays):
            self.arrays = self.arrays or arrays
            super().run(*self.arrays)

    dev, task, rng = plans.device("fp32"), problem("forward", "plain", False), np.random.default_rng(seed)
    solver = turned(dev, task, Stale)
    check(dev, task, solver, rng)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(dev, task, solver, rng)


# Nets, and several processes


FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'
NET = inputs(x=(2, 8, 6, 6), t=(2, 16, 4, 4)) + wired(
    "Convolution", "x", "y", f"num_output: 16 kernel_size: 3 group: 2 {FILL}"
)
NET += wired("ReLU", "y", "y", name="relu") + wired("EuclideanLoss", "y t", "loss")
PREFERRED = ("one", "slices", "turned", "small")


def trained(prefers: str | None, passes: int = 3, shared=None):
    """The gradients of a net after some passes, the last of them by graphs; and what was chosen."""
    dev = plans.device("fp32", prefers=prefers)
    net = bind(NET, seed=3, dev=dev)
    rng = np.random.default_rng(3)
    feed(net, **{name: rng.normal(size=shape) for name, shape in (("x", (2, 8, 6, 6)), ("t", (2, 16, 4, 4)))})
    if shared:
        dev.algorithms.ranks = shared
    for _ in range(passes):
        run(net)
    return [diff.copy() for diff in net.params.diffs], dev.algorithms and dev.algorithms.recorded()


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAFFELITE_TUNE", raising=False)


@pytest.mark.parametrize("prefers", PREFERRED)
def test_a_net_does_not_depend_on_what_is_chosen(no_cache, prefers):
    gradients, chosen = trained(prefers)
    whole = [line for line in chosen if "pitch" not in line]
    assert whole and all(line.rpartition(": ")[2].startswith(prefers) for line in whole)
    for actual, expected in zip(gradients, trained(None)[0], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_ranks_with_other_clocks_choose_alike(no_cache, tmp_path, monkeypatch):
    """Each finds another candidate to be the fastest; alone, they would differ."""

    def of_rank(rank, exchange):
        return trained(PREFERRED[rank], shared=(rank, exchange))[1]

    first, second = run_ranks(2, one_at_a_time(of_rank))
    assert first == second and all(": one" in line for line in first)
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path / "other"))
    assert trained(PREFERRED[1])[1] != first
