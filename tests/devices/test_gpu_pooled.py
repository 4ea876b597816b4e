"""Convolutions of small images that compute the maxima of their top too, by the stand-in: numbers, planted faults, and
several processes."""

import numpy as np
import pytest
import reference
from devices.host import plans
from devices.host.backend import HostBackend
from devices.host.ranks import one_at_a_time, run_ranks
from textnet import bind, feed, inputs, layer, run, wired

from caffelite.devices import Window, ops

pytestmark = pytest.mark.host

WINDOW = Window((3, 2), (1, 1), (1, 0), (1, 2))
X, GROUPS = (2, 4, 6, 9), 2
CASES = {"one output": (6, Window((2, 2), (2, 2))), "pairs of outputs": (8, Window((3, 2), (3, 2)))}


class Faulty(HostBackend):
    """fault: text of the kernels, and what replaces it."""

    def __init__(self, fault: tuple[str, str], backwards: bool | None = None):
        super().__init__(backwards=backwards)
        self._fault = fault

    def kernel(self, source, name):
        return super().kernel(source.replace(*self._fault), name)


def maxima(y, window):
    """The largest number of each window and its place in the plane: the first of equals, or the last NaN."""
    (rows, columns), (height, width) = window.kernel, y.shape[2:]
    shape = (*y.shape[:2], -(-height // rows), -(-width // columns))
    tops, places = np.empty(shape, y.dtype), np.empty(shape, int)
    for n, c, i, j in np.ndindex(shape):
        part = y[n, c, i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        unknown = np.argwhere(np.isnan(part))
        row, column = unknown[-1] if len(unknown) else np.unravel_index(part.argmax(), part.shape)
        tops[n, c, i, j], places[n, c, i, j] = part[row, column], (i * rows + row) * width + j * columns + column
    return tops, places


def check(dev, case, rng):
    """Both ways have the oracle's numbers, and what they pool is what they convolved."""
    m, pooling = CASES[case]
    x, w, b = (np.round(rng.normal(size=s) * 2) / 2 for s in (X, (m, X[1] // GROUPS, 3, 2), (m,)))
    x[0, 1, 2, 5] = np.nan
    expected = reference.convolution(x, w, b, WINDOW, GROUPS)
    tops, places = maxima(expected.astype(np.float32), pooling)
    convolution = ops.Convolution(X, expected.shape, WINDOW, GROUPS)
    op = dev.build(ops.PooledConvolution(convolution, ops.Pooling("MAX", expected.shape, tops.shape, pooling)))
    arrays = [dev.empty(a.shape) for a in (x, w, b)]
    for array, values in zip(arrays, (x, w, b), strict=True):
        dev.upload(array, values)
    for _ in range(2):
        y, pooled, index = dev.empty(expected.shape), dev.empty(tops.shape), dev.empty(tops.shape, np.int32)
        op.forward_pooled(*arrays, y, pooled, index)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(pooled, tops)
        np.testing.assert_array_equal(index, places)
        for array in (y, pooled, index):
            array[...] = 0
    return op


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prefers", ["one", "small"])
@pytest.mark.parametrize("backwards", [False, True], ids=["first to last", "last to first"])
def test_maxima_of_a_convolution(case, prefers, backwards, no_cache, seed):
    """Halves, whose sums are exact, so that many numbers are equal."""
    dev = plans.device("fp32", backend=HostBackend(backwards=backwards), prefers=prefers)
    op = check(dev, case, np.random.default_rng(seed))
    assert op.taken["forward"] == prefers


@pytest.mark.parametrize(
    "fault",
    [
        ("c < c0 + columns &&", "c < c0 + columns - 1 &&"),
        ("value > best[j]", "value >= best[j]"),
        ("|| value != value)", ")"),
    ],
    ids=["last column", "first of equals", "NaN"],
)
def test_a_planted_fault_is_seen(fault, no_cache, seed):
    dev = plans.device("fp32", backend=Faulty(fault), prefers="small")
    with pytest.raises(AssertionError):
        check(dev, "one output", np.random.default_rng(seed))


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAFFELITE_TUNE", raising=False)


FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'
POOL = "pool: MAX kernel_size: 2 stride: 2"
SHAPES = {"x": (2, 3, 12, 12), "t": (2, 5)}


def lenet(pool: str = POOL, between: str = "") -> str:
    """LeNet's layers, with fewer outputs."""
    text = inputs(**SHAPES) + wired("Convolution", "x", "c1", f"num_output: 4 kernel_size: 3 {FILL}")
    text += between + wired("Pooling", "c1", "p1", pool)
    text += wired("Convolution", "p1", "c2", f"num_output: 6 kernel_size: 2 {FILL}") + wired(
        "Pooling", "c2", "p2", POOL
    )
    text += wired("ReLU", "p2", "p2", name="relu") + wired("InnerProduct", "p2", "ip", f"num_output: 5 {FILL}")
    return text + wired("EuclideanLoss", "ip t", "loss")


def trained(prefers: str | None, text: str = lenet(), shared=None, fault=("", "")):
    """A net after some passes, the last of them by graphs."""
    dev = plans.device("fp32", backend=Faulty(fault) if fault[0] else HostBackend(), prefers=prefers)
    net, rng = bind(text, seed=3, dev=dev), np.random.default_rng(3)
    feed(net, **{name: rng.normal(size=shape) for name, shape in SHAPES.items()})
    if shared:
        dev.algorithms.ranks = shared
    for _ in range(4):
        run(net)
    return net


def fused(net) -> dict[str, list[str]]:
    """What runs as part of each layer."""
    return {step.node.name: [node.name for node in step.fused] for step in net.compiled.forward if step.fused}


@pytest.mark.parametrize("prefers", ["one", "small"])
def test_a_net_with_fused_pooling_learns_alike(no_cache, prefers):
    """As on the CPU, whose layers run one by one."""
    net, other = trained(prefers), bind(lenet(), seed=3, dtype="float32")
    rng = np.random.default_rng(3)
    feed(other, **{name: rng.normal(size=shape) for name, shape in SHAPES.items()})
    run(other)
    assert fused(net) == {"c1": ["p1"], "c2": ["p2"]}
    small = [line for line in net.dev.algorithms.recorded() if "pooled2x2: small" in line]
    assert len(small) == (2 if prefers == "small" else 0)
    for actual, expected in zip(net.params.diffs, other.params.diffs, strict=True):
        np.testing.assert_allclose(net.dev.download(actual), expected, rtol=1e-4, atol=1e-5)


def test_what_is_pooled_can_be_observed(no_cache):
    """debug_info shows the top of the convolution after its step."""
    means = {}
    for prefers in ("one", "small"):
        net, means[prefers] = trained(prefers), {}

        def observe(node, net=net, means=means[prefers]):
            means[node.name] = net.mean_abs(net.data[node.tops[0]])

        net.forward(observe=observe)
    assert means["small"] == pytest.approx(means["one"], rel=1e-5) and means["small"]["c1"] > 0


@pytest.mark.parametrize(
    "text",
    [
        lenet("pool: MAX kernel_size: 3 stride: 2"),
        lenet("pool: AVE kernel_size: 2 stride: 2"),
        lenet("pool: MAX kernel_size: 2 stride: 2 pad: 1"),
        lenet(between=wired("ReLU", "c1", "c1", name="relu1")),
        lenet(between=layer("Silence", "c1", tops="", name="reader")),
    ],
    ids=["windows overlap", "means", "pad", "rectified", "another reader"],
)
def test_what_does_not_run_as_part_of_a_convolution(text):
    net = bind(text, dev=plans.device("fp32"))
    assert "p1" not in fused(net).get("c1", [])


def test_shapes_that_may_change_keep_layers_apart():
    """Windows that cover one image need not cover another."""
    assert not fused(bind(lenet(), dev=plans.device("fp32"), fixed_shapes=False))
    more = inputs(s=(2,)) + wired("Filter", "t s", "few")
    assert not fused(bind(lenet() + more, dev=plans.device("fp32")))


def test_a_place_that_is_wrong_is_seen_in_the_gradient(no_cache):
    right, wrong = trained("small"), trained("small", fault=("where[j] = r * g.ow + c", "where[j] = r0 * g.ow + c"))
    assert not np.allclose(wrong.params.diffs[0], right.params.diffs[0])


def test_ranks_choose_the_same_way_of_pooling(no_cache):
    """Each alone would choose another one."""

    def of_rank(rank, exchange):
        return trained(("small", "one")[rank], shared=(rank, exchange)).dev.algorithms.recorded()

    first, second = run_ranks(2, one_at_a_time(of_rank))
    assert first == second and any("pooled2x2: small" in line for line in first)
