"""Single layers: dropped channels, dense blocks, mistakes."""

import math

import numpy as np
import pytest
from textnet import bind, inputs, judged, layer, mistaken, over, run, slopes, wired


def test_whole_channels_are_dropped():
    net = bind(judged(over("SpatialDropout", "dropout_ratio: 0.25", x=(20, 30, 2, 3))), keep=True)
    run(net, x=1, t=0)
    tops = net.dev.download(net.blobs["y"]).reshape(600, 6)
    assert (tops == tops[:, :1]).all() and set(np.unique(np.round(tops, 6))) == {0, 1.333333}
    assert 0.15 < (tops[:, 0] == 0).mean() < 0.35
    np.testing.assert_allclose(slopes(net, "x").reshape(600, 6), tops * 4 / 3 / 20, rtol=1e-5)
    first = tops[:, 0]
    run(net, 1)
    assert (net.dev.download(net.blobs["y"]).reshape(600, 6)[:, 0] != first).any()


X = inputs(x=(4, 6), z=(4, 5), s=(3, 6), i=(2, 3, 4, 5), l=(4,))


test_mistakes = mistaken(
    (layer("GRN", "x", body="bias: @-1"), "a bad bias"),
    (layer("GroupNorm", "x", body="group_num: @0"), "a bad group_num"),
    (layer("GroupNorm", "x", body="eps: @-1"), "a bad eps"),
    (layer("GroupNorm", "@x", body="group_num: 5"), "does not divide into groups"),
    (layer("Sum", "x", "@z"), "does not fit"),
    (layer("Sum", "@x", body="num_component: 4"), "does not fit"),
    (layer("SpatialDropout", "x", body="dropout_ratio: @1"), "a bad dropout_ratio"),
    (layer("ConvLSTM", "i", body="num_output: 2 @kernel_size: 2"), "a bad kernel_size"),
    before=X,
)


DENSE = "numTransition: 2 initChannel: 16 growthRate: 2"  # of 3 channels, which the bottom has


BATCH = (4, 3, 5, 4)


PART = """layer { name: "bn<I>" type: "BatchNorm" bottom: "<X>" top: "bn<I>" }
layer { name: "scale<I>" type: "Scale" bottom: "bn<I>" top: "scale<I>" scale_param { bias_term: true } }
layer { name: "relu<I>" type: "ReLU" bottom: "scale<I>" top: "scale<I>" }
layer { name: "conv<I>" type: "Convolution" bottom: "scale<I>" top: "conv<I>"
  convolution_param { num_output: <M> kernel_size: <K> pad: <P> bias_term: false } }
"""


def dense(body):
    return over("DenseBlock", f"denseblock_param {{ {body} }}", x=BATCH)


@pytest.mark.parametrize("factor", [0, 4])
@pytest.mark.parametrize("inner", [False, True])
def test_a_dense_block_is_its_layers(inner, factor, rng):
    block = bind(dense(f"{DENSE} use_BC: {str(inner).lower()}"), "TEST")
    for blob in block.params.blobs:
        blob[...] = rng.normal(size=blob.shape) if blob.shape[-1] == 3 else 0.5 + rng.random(blob.shape)
    block.params.blobs[-1][...] = factor
    text, below, values = inputs(x=BATCH), "x", []
    for t in range(2):
        outer, first = block.params.blobs[t:10:2], block.params.blobs[10 + t : -1 : 2]
        bottom = below
        for i, (bn, filters) in enumerate([(outer, first[0]), (first, outer[0])] if inner else [(outer, outer[0])]):
            part, k = PART, filters.shape[-1]
            for letter, value in {"I": f"{t}{i}", "X": bottom, "M": len(filters), "K": k, "P": k // 2}.items():
                part = part.replace(f"<{letter}>", str(value))
            text, bottom = text + part, f"conv{t}{i}"
            values += [*bn[3:5], factor or 1, *bn[1:3], filters]
        text += wired("Concat", f"{below} {bottom}", f"y{t}")
        below = f"y{t}"
    layers = bind(text, "TEST")
    for blob, value in zip(layers.params.blobs, values, strict=True):
        blob[...] = np.reshape(value, blob.shape)
    x = rng.normal(size=BATCH)
    run(block, x=x)
    run(layers, x=x)
    np.testing.assert_allclose(block.blobs["y"], layers.blobs["y1"], rtol=1e-9, atol=1e-9)


def test_running_moments_of_a_dense_block(rng):
    net, x = bind(dense("numTransition: 1 initChannel: 3 moving_average_fraction: 0.25")), rng.normal(3, 2, BATCH)
    run(net, x=x)
    mean, variance, factor = net.params.blobs[3:]
    np.testing.assert_allclose(mean, 0.25 * x.mean((0, 2, 3), keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(variance, 0.75 + 0.25 * x.var((0, 2, 3), ddof=1, keepdims=True), rtol=1e-12)
    assert factor == 0


def test_a_dense_block_drops_new_channels(rng):
    x, nets = rng.normal(size=BATCH), []
    filters = rng.normal(size=(2, 3, 3, 3))
    for drop in ("", "use_dropout: true dropout_amount: 0.5"):
        nets.append(bind(judged(dense(f"numTransition: 1 initChannel: 3 growthRate: 2 {drop}")), keep=True))
        nets[-1].params.blobs[0][...] = filters
        nets[-1].params.blobs[1][...] = 1
        run(nets[-1], x=x, t=0)
    plain, dropped = nets
    whole, part = plain.blobs["y"].copy(), dropped.blobs["y"]
    kept = (part != 0) * np.where(np.arange(5) < 3, 1, 2)[:, None, None]
    np.testing.assert_allclose(part, kept * whole, rtol=1e-12)
    assert 0.3 < (kept[:, 3:] == 0).mean() < 0.7
    run(plain, x=x, t=whole - kept * part)  # whose gradient of y is what dropping leaves
    np.testing.assert_allclose(slopes(dropped, "x"), slopes(plain, "x"), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dropped.params.diffs[0], plain.params.diffs[0], rtol=1e-9, atol=1e-12)


test_mistakes_of_dense_blocks = mistaken(
    (dense(f"{DENSE} filter_H: @5"), "filter_H is not supported; expected 3, found 5"),
    (dense(f"{DENSE} dropout_amount: @1"), "a bad dropout_amount; expected 0 to 1, less than 1, found 1"),
    (dense(f"{DENSE} moving_average_fraction: @2"), "a bad moving_average_fraction"),
    (dense("growthRate: @0"), "growthRate must be positive"),
)


def test_gelu_is_near_the_normal_distribution():
    x = np.linspace(-9, 9, 4001)
    net = bind(judged(over("GELU", "", x=(1, 4001))), keep=True)
    run(net, x=x[None], t=0)
    exact = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x]
    np.testing.assert_allclose(net.blobs["y"][0], exact, rtol=0, atol=3e-7)


test_mistakes_of_synopsys = mistaken(
    (layer("MatMul", "x", "@z"), "does not fit; expected"),
    (layer("Mul", "x", "@z"), "does not fit; expected axes as [2, 4, 3, 3], or 1"),
    (layer("Mul", "x", body="mul_shape: @2"), "mul_shape does not fit"),
    (layer("PixelShuffle", "@x", body="upscale_factor: 3"), "does not divide into squares"),
    (layer("PixelShuffle", "x", body="@pixel_shuffle_param { }"), "upscale_factor must be positive"),
    (layer("ResizeNearestNeighbor", "x", body='data_format: @"CHW"'), "a bad data_format"),
    (layer("ResizeNearestNeighbor", "x", body="output_height: @0"), "a bad height of the top"),
    (
        layer("ResizeNearestNeighbor", "x", body="align_corners: true half_pixel_onnx: @true"),
        "align_corners together with half_pixel_onnx; keep one of them",
    ),
    before=inputs(x=(2, 4, 3, 3), z=(2, 4, 2, 3)),
)
