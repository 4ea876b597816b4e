"""Gradients where several things bring one: bottoms that share kernels, tops that nobody judges."""

import numpy as np
import pytest
from layer_row import FILL
from textnet import bind, feed, inputs, run

JUDGE = 'layer {{ name: "j{0}" type: "EuclideanLoss" bottom: "{0}" bottom: "t{0}" top: "j{0}" }}\n'


def judged(text: str, **tops: tuple[int, ...]) -> str:
    return (
        "force_backward: true\n"
        + inputs(**{f"t{n}": s for n, s in tops.items()})
        + text
        + "".join(map(JUDGE.format, tops))
    )


def fill(net, rng) -> None:
    net.params.data[...] = rng.normal(size=net.params.size)
    feed(net, **{v.name: rng.normal(size=v.shape) for node in net.graph.feeds for v in node.tops})


def assert_slope(net, rng) -> None:
    """The parameters' and inputs' gradients, along a random direction; what memory held before does not count."""
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
    text = inputs(a=shape, b=shape) + f'layer {{ name: "l" type: "{kind}" bottom: "a" bottom: "b" top: "c" top: "d" '
    text += f"convolution_param {{ num_output: 3 kernel_size: 2 {FILL} }} }}\n"
    top = bind(text).blobs["c"].shape
    net = bind(judged(text, c=top, d=top), keep=True)
    fill(net, rng)
    assert_slope(net, rng)


def test_volumes_keep_their_relu(rng):
    text = inputs(x=(1, 2, 3, 3, 3)) + 'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param '
    text += f'{{ num_output: 2 kernel_size: 2 {FILL} }} }} layer {{ name: "r" type: "ReLU" bottom: "c" top: "y" }}'
    net = bind(text)
    fill(net, rng)
    net.forward()
    assert net.blobs["y"].min() == 0 and net.blobs["y"].max() > 0


def test_a_reference_that_learns_by_another_way(rng):
    text = (
        inputs(x=(1, 2, 4, 4), r=(1, 2, 2, 2)) + 'layer { name: "l" type: "Crop" bottom: "x" bottom: "r" top: "y" }\n'
    )
    net = bind(judged(text, y=(1, 2, 2, 2), r=(1, 2, 2, 2)), keep=True)
    fill(net, rng)
    assert_slope(net, rng)


@pytest.mark.parametrize("bottoms", ["ab", "ba", "aa"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_view_whose_second_bottom_has_other_readers(bottoms, keep, rng):
    """An image resized to the size that it has; of the other bottom only the size counts."""
    shape = (1, 2, 3, 3)
    text = inputs(a=shape, b=shape) + 'layer { name: "l" type: "Interp" top: "y" interp_param { use_blob_size: true } '
    text += "".join(f'bottom: "{name}" ' for name in bottoms) + "}\n"
    net = bind(judged(text, y=shape, a=shape, b=shape), keep=keep)
    fill(net, rng)
    assert_slope(net, rng)


@pytest.mark.parametrize("top", "ch")
def test_one_top_of_a_step(top, rng):
    text = (
        inputs(s=(1, 3, 2), x=(1, 3, 8), k=(1, 3))
        + 'layer { name: "l" type: "LSTMUnit" bottom: "s" bottom: "x" bottom: "k" '
    )
    net = bind(judged(text + 'top: "c" top: "h" }\n', **{top: (1, 3, 2)}), keep=True)
    fill(net, rng)
    assert_slope(net, rng)


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_the_last_state_alone(kind, rng):
    states = {"RNN": "h", "LSTM": "hc"}[kind]
    text = inputs(x=(3, 2, 2), k=(3, 2), **{f"{s}0": (1, 2, 2) for s in states})
    text += f'layer {{ name: "l" type: "{kind}" bottom: "x" bottom: "k" ' + "".join(f'bottom: "{s}0" ' for s in states)
    text += (
        'top: "y" '
        + "".join(f'top: "{s}" ' for s in states)
        + f"recurrent_param {{ num_output: 2 expose_hidden: true {FILL} }} }}\n"
    )
    net = bind(judged(text, h=(1, 2, 2)), keep=True)
    fill(net, rng)
    assert_slope(net, rng)
