"""Gradients where several things bring one: bottoms that share kernels, tops that nobody judges."""

import numpy as np
import pytest
from layers.layer_row import FILL
from textnet import bind, feed, inputs, judged, layer, over, run


def fill(net, rng) -> None:
    net.params.data[...] = rng.normal(size=net.params.size)
    feed(net, **{v.name: rng.normal(size=v.shape) for node in net.graph.feeds for v in node.tops})


def assert_slope(text: str, rng, keep: bool = True, **targets: str) -> None:
    """The gradients of random parameters and inputs, along a random direction; what memory held before does not
    count."""
    net = bind(judged(text, **targets), keep=keep)
    fill(net, rng)
    for array in net.diff.values():
        array.fill(np.nan)
    for node in net.graph.nodes:
        for array in node.layer.saved.values():
            array.fill(np.nan if array.dtype.kind == "f" else 0)
    for value, weight in net.compiled.constants:
        net.diff[value].fill(weight)
    run(net)
    values = [v for n in net.graph.feeds for v in n.tops if v in net.diff and not v.name.startswith("t")]
    spots, slopes = [net.params.data, *(net.data[v] for v in values)], [net.params.diff, *(net.diff[v] for v in values)]
    steps = [rng.normal(size=s.shape) * 1e-5 for s in spots]
    slope = sum(float((g * s).sum()) for g, s in zip(slopes, steps, strict=True))
    losses = []
    for sign in (1, -2):
        for spot, step in zip(spots, steps, strict=True):
            spot += sign * step
        losses.append(run(net))
    assert (losses[0] - losses[1]) / 2 == pytest.approx(slope, rel=1e-5, abs=1e-13)


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (1, 2, 2, 3, 2)])
def test_bottoms_that_share_kernels(kind, shape, rng):
    text = over(kind, f"num_output: 3 kernel_size: 2 {FILL}", "c d", a=shape, b=shape)
    assert_slope(text, rng, tc="c", td="d")


def test_volumes_keep_their_relu(rng):
    net = bind(over("Convolution", f"num_output: 2 kernel_size: 2 {FILL}", "c", x=(1, 2, 3, 3, 3)) + layer("ReLU", "c"))
    fill(net, rng)
    net.forward()
    assert net.blobs["y"].min() == 0 and net.blobs["y"].max() > 0


def test_a_reference_that_learns_by_another_way(rng):
    assert_slope(over("Crop", x=(1, 2, 4, 4), r=(1, 2, 2, 2)), rng, ty="y", tr="r")


@pytest.mark.parametrize("bottoms", ["ab", "ba", "aa"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_view_whose_second_bottom_has_other_readers(bottoms, keep, rng):
    """An image resized to the size that it has; of the other bottom only the size counts."""
    shape = (1, 2, 3, 3)
    text = inputs(a=shape, b=shape) + layer("Interp", *bottoms, body="use_blob_size: true")
    assert_slope(text, rng, keep, ty="y", ta="a", tb="b")


@pytest.mark.parametrize("top", "ch")
def test_one_top_of_a_step(top, rng):
    assert_slope(over("LSTMUnit", tops="c h", s=(1, 3, 2), x=(1, 3, 8), k=(1, 3)), rng, t=top)


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_the_last_state_alone(kind, rng):
    states = {"RNN": "h", "LSTM": "hc"}[kind]
    body, tops = f"num_output: 2 expose_hidden: true {FILL}", " ".join("y" + states)
    text = over(kind, body, tops, x=(3, 2, 2), k=(3, 2), **{f"{s}0": (1, 2, 2) for s in states})
    assert_slope(text, rng, t="h")
