"""What computes an inner product's forward pass, by the stand-in: numbers, planted faults, and several processes."""

import numpy as np
import pytest
import reference
from devices.host import plans
from devices.host.backend import HostBackend
from devices.host.ranks import one_at_a_time, run_ranks
from textnet import bind, feed, inputs, run, wired

from caffelite.devices import ops

pytestmark = pytest.mark.host

WAYS = ("product", "few", "fused")
LAUNCHES = {"product": 2, "few": 1, "fused": 1}  # with bias and ReLU


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAFFELITE_TUNE", raising=False)


class Faulty(HostBackend):
    """The last number of each row is left out."""

    def kernel(self, source, name):
        return super().kernel(source.replace("i < k; i += 4", "i < k - 1; i += 4"), name)


def computed(dev, sizes, slope, biased, rng):
    """The last of two outputs, the oracle's, and how many launches it took."""
    m, n, k = sizes
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (n, k), (n,)))
    op, y = dev.build(ops.InnerProduct(m, k, n)), dev.empty((m, n))
    for _ in range(2):  # the first run chooses
        y[...] = 99
        before = dev.backend.launches
        op.forward(x, w, b if biased else None, y, slope)
    return y, reference.leaky(x.astype(float) @ w.T + (b if biased else 0), slope), dev.backend.launches - before


@pytest.mark.parametrize("sizes", [(5, 3, 70), (4, 6, 128), (1, 1, 1), (33, 2, 257)])
@pytest.mark.parametrize("slope", [None, 0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("prefers", WAYS)
def test_the_ways_of_an_inner_product(sizes, slope, biased, prefers, seed):
    """cuDNN has no leaky ReLU, and nothing to fuse without a bias: then the product."""
    dev = plans.device(prefers=prefers)
    y, expected, launches = computed(dev, sizes, slope, biased, np.random.default_rng(seed))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    taken = "product" if prefers == "fused" and (slope == 0.1 or not biased) else prefers
    assert [line for line in dev.algorithms.recorded() if "product" in line][-1].endswith(f": {taken}")
    assert launches == (LAUNCHES[taken] if biased or slope is not None else 1)


@pytest.mark.parametrize("prefers", WAYS)
def test_what_is_not_finite_stays_so_in_a_product(prefers):
    dev = plans.device(prefers=prefers)
    op, y, nan = dev.build(ops.InnerProduct(2, 5, 3)), dev.empty((2, 3)), np.full((2, 5), np.nan, np.float32)
    for _ in range(2):
        op.forward(nan, np.ones((3, 5), np.float32), np.ones(3, np.float32), y, 0)
    assert np.isnan(y).all()


def test_without_choices_a_product_builds_no_plan(seed):
    dev = plans.device()
    dev.engine.open = None
    y, expected, launches = computed(dev, (40, 64, 60), 0, True, np.random.default_rng(seed))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    assert launches == 2


def test_a_product_without_a_fused_plan(seed):
    dev = plans.device(prefers="fused", refused=[("forward", True, True)])
    y, expected, _ = computed(dev, (4, 6, 8), 0, True, np.random.default_rng(seed))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    assert dev.algorithms.recorded() == ["product 4x6x8 float32 biased slope0: product"]


def test_a_number_that_a_product_leaves_out_is_seen(seed):
    dev = plans.device(prefers="few", backend=Faulty())
    y, expected, _ = computed(dev, (5, 3, 69), None, True, np.random.default_rng(seed))
    assert not np.allclose(y, expected, rtol=1e-4, atol=1e-4)


FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'
SHAPES = {"x": (3, 8), "t": (3, 4)}
NET = inputs(**SHAPES) + wired("InnerProduct", "x", "h", f"num_output: 12 {FILL}")
NET += wired("ReLU", "h", "h", name="relu")
NET += wired("InnerProduct", "h", "y", f"num_output: 4 {FILL}") + wired("EuclideanLoss", "y t", "loss")


def trained(prefers: str | None, shared=None):
    """A net after some passes, the last of them by graphs."""
    net, rng = bind(NET, seed=3, dev=plans.device(prefers=prefers)), np.random.default_rng(3)
    feed(net, **{name: rng.normal(size=shape) for name, shape in SHAPES.items()})
    if shared:
        net.dev.algorithms.ranks = shared
    for _ in range(4):
        run(net)
    return net


def products(net) -> list[str]:
    return [line for line in net.dev.algorithms.recorded() if line.startswith("product")]


@pytest.mark.parametrize("prefers", WAYS)
def test_gradients_do_not_depend_on_the_way_of_products(prefers):
    net = trained(prefers)
    assert len(products(net)) == 2 and all(line.endswith(f": {prefers}") for line in products(net))
    for actual, expected in zip(net.params.diffs, trained(None).params.diffs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_ranks_choose_the_same_way_of_products():
    """Each alone would choose another one."""

    def of_rank(rank, exchange):
        return products(trained(("few", "fused")[rank], (rank, exchange)))

    first, second = run_ranks(2, one_at_a_time(of_rank))
    assert first == second and len(first) == 2 and all(line.endswith(": few") for line in first)
