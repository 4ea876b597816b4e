"""One battery for every layer: each row of the table against NumPy, in float64."""

import functools

import numpy as np
import pytest
from devices.host.backend import HostBackend
from layers.layer_row import FILL, Row
from layers.layer_rows import ROWS, UNLIKE
from textnet import assert_slope, bind, feed, forward, inputs, layer, over, run

from caffelite.devices import open_device
from caffelite.devices.cuda import GPU, count
from caffelite.errors import CaffeliteError
from caffelite.layers import REGISTRY

every_row = pytest.mark.parametrize("row", ROWS, ids=str)


@functools.cache
def opened(kind: str, dtype: str, precision: str = "fp32"):
    """A device, for all rows the same."""
    if kind == "cpu":
        return open_device(None, dtype)
    return GPU(0, dtype, HostBackend() if kind == "host" else None, precision)


@pytest.fixture(
    params=["cpu", pytest.param("host", marks=pytest.mark.host), pytest.param("gpu", marks=pytest.mark.gpu)]
)
def kind(request):
    """A CPU, the GPU's kernels run by the host, and a GPU where there is one."""
    if request.param == "gpu" and not count():
        pytest.skip("no usable GPU")
    return request.param


def test_every_layer_has_a_row():
    assert {row.kind for row in ROWS} == set(REGISTRY)
    assert all(cls.__doc__ for cls in REGISTRY.values())


def assert_forward(row: Row, rng, dev, batch: int | None = None, rtol: float = 1e-10, atol: float = 1e-12):
    """Forward gives what the oracle says. Returns (net, what it was fed)."""
    net, fed = row.bind(row.text(batch), dev=dev), row.draw(rng, batch)
    for blob in net.params.blobs:
        dev.upload(blob, rng.normal(size=blob.shape))
    feed(net, **fed)
    net.forward()
    expected = row.oracle(*fed.values(), *[dev.download(p).astype(float) for p in net.params.blobs])
    assert len(expected) == row.tops
    for i, values in enumerate(expected):
        actual = dev.download(net.blobs[f"y{i}"])
        assert actual.shape == np.shape(values)
        np.testing.assert_allclose(actual, values, rtol, atol)
    net.check_faults()
    return net, fed


def assert_nan_is_not_hidden(row: Row, net, fed) -> None:
    for i in set(range(len(row.bottoms))) - row.constant:
        fed[f"x{i}"][0] = np.nan
    feed(net, **fed)
    net.forward()
    top = net.blobs["y0"]
    assert np.isnan(top if top.shape == () else top[0]).all()
    assert top.shape == () or not np.isnan(top[1:]).any()


@every_row
def test_forward(row, rng, kind):
    net, fed = assert_forward(row, rng, opened(kind, "float64"))
    judged = row.differentiable and row.bottoms and 0 not in row.constant and not {row.kind, str(row)} & UNLIKE
    if kind == "cpu" and judged and row.name != "of blobs":  # a row of weights reaches every sample
        assert_nan_is_not_hidden(row, net, fed)


@pytest.mark.gpu
@every_row
@pytest.mark.parametrize(
    "precision, rtol, atol", [("fp32", 1e-4, 1e-5), ("tf32", 1e-2, 1e-2), ("fp16", 1e-2, 2e-2), ("bf16", 5e-2, 1e-1)]
)
def test_forward_in_float32(row, rng, precision, rtol, atol):
    if not count():
        pytest.skip("no usable GPU")
    assert_forward(row, rng, opened("gpu", "float32", precision), rtol=rtol, atol=atol)


@pytest.mark.parametrize("row", [r for r in ROWS if r.bottoms], ids=str)
def test_a_batch_of_one(row, rng, kind):
    assert_forward(row, rng, opened(kind, "float64"), 1)


@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable], ids=str)
def test_backward(row, rng, kind):
    """The gradients of bottoms and parameters, with a random gradient from above."""
    dev = opened(kind, "float64")
    text, targets = row.under_losses(row.text())
    net, fed = row.bind(text, keep=True, dev=dev), row.draw(rng)
    dev.upload(net.params.data, rng.normal(size=net.params.size))
    feed(net, **fed, **{name: rng.normal(size=shape) for name, shape in targets.items()})
    run(net)
    values = {v.name: v for v in net.graph.values.values()}
    moved = [f"x{i}" for i in range(len(row.bottoms)) if i not in row.constant]
    assert [name for name in fed if values[name] in net.diff] == moved
    if row.exact:
        assert_slope(net, moved, rng)
        if kind == "host" and not net.requires_host:
            assert not dev.why_eager() and len(dev.backend.graphs) >= 2, "passes from the third on were captured"
    if kind == "cpu" and row.bottoms:
        assert_micro_batches_add_up(net)
        assert_backward_reads_no_more_than_it_says(net)


def assert_micro_batches_add_up(net) -> None:
    run(net)
    once = net.params.diff.copy()
    net.backward(add=True)
    np.testing.assert_allclose(net.params.diff, 2 * once, rtol=1e-9, atol=1e-12)


def assert_backward_reads_no_more_than_it_says(net) -> None:
    """NaN in every bottom and top that it may not read, and the plan gives away, leaves every gradient as it was."""

    def read(value) -> bool:
        return value.node.reads_top(value.top) or any(node.reads_bottom(i) for node, i in value.readers)

    run(net)
    node = next(n for n in net.graph.nodes if n.name == "layer")
    spots = [net.params.diff, *(net.diff[b] for b in node.bottoms if b in net.diff)]
    expected = [s.copy() for s in spots]
    reads = {net.compiled.data[v] for n in net.graph.nodes for v in n.tops if read(v)}
    for value in {*node.bottoms, *node.tops}:
        if net.compiled.data[value] not in reads:
            net.data[value].fill(np.nan)
    net.backward()
    for spot, before in zip(spots, expected, strict=True):
        np.testing.assert_array_equal(spot, before)


@pytest.mark.parametrize(
    "kind", sorted(k for k, cls in REGISTRY.items() if cls.in_place and cls.differentiable and cls.bottoms[0] == 1)
)
def test_in_place_gives_the_same(kind, rng):
    """Over a layer of its own, whose output nobody else reads: the request is granted where backward can do without the
    bottom."""
    head = inputs(x=(3, 4), target=(3, 32)) + layer("InnerProduct", "x", body=f"num_output: 32 {FILL}", tops="h")
    fed = {"x": rng.normal(size=(3, 4)), "target": rng.normal(size=(3, 32))}
    actual = {}
    for top in "hy":
        text = head + layer(kind, "h", tops=top) + layer("EuclideanLoss", top, "target", tops="loss")
        net = bind(text, fuse=False)
        feed(net, **fed)
        actual[top] = (run(net), net.params.diff.copy())
        node = net.graph.nodes[3]
        shared = net.data[node.tops[0]].ctypes.data == net.data[node.bottoms[0]].ctypes.data
        assert shared is not node.layer.backward_reads_bottoms
    for of_one, of_both in zip(actual["h"], actual["y"], strict=True):
        np.testing.assert_array_equal(of_one, of_both)


@pytest.mark.parametrize(
    ("scores", "right"),
    [([0, 9, 1], 1), ([np.nan] * 3, 0), ([0, np.nan, 1], 0), ([0, 9, np.nan], 0), ([0, 1, 1], 0), ([1, 1, 0], 0)],
)
def test_accuracy_counts_neither_nan_nor_a_tie_as_right(scores, right):
    net = bind(over("Accuracy", x=(1, 3), t=(1,)), "TEST")
    forward(net, x=np.array([scores], float), t=1)
    assert net.blobs["y"] == right


# labels


@pytest.mark.parametrize("kind", ["SoftmaxWithLoss", "Accuracy"])
@pytest.mark.parametrize("label", [3, -1, np.nan])
def test_labels_out_of_range(kind, label):
    net = bind(over(kind, x=(4, 3), t=(4,)))
    forward(net, x=0, t=np.array([0, 2, label, 1]))
    message = 'layer "layer" .*: a label in bottom "t" is no class .sample 2 of the batch.; expected integers 0 to 2, '
    message += 'the channels of "x"'
    with pytest.raises(CaffeliteError, match=message) as caught:
        net.check_faults()
    assert str(caught.value).startswith("net.prototxt:3:1: ")


def test_labels_out_of_range_of_pixels():
    net = bind(over("SoftmaxWithLoss", "loss_param { ignore_label: 255 }", x=(2, 3, 4), t=(2, 4)))
    labels = np.zeros((2, 4))
    labels[0, 1] = 255
    forward(net, x=0, t=labels)
    net.check_faults()
    labels[1, 2] = 3
    forward(net, t=labels)
    with pytest.raises(CaffeliteError, match="sample 1 of the batch, position 2"):
        net.check_faults()
