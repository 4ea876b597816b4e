"""Layers of optical flow: PyTorch's operations, unknown pixels, mistakes."""

import numpy as np
import pytest
from textnet import bind, forward, inputs, layer, mistaken, over, run, slopes
from torch_results import assert_as_torch, results


def test_pytorch_warps_alike(rng):
    x, flow = rng.normal(size=(2, 3, 6, 7)), rng.normal(size=(2, 2, 6, 7))

    def warp(torch, x, flow):
        rows, columns = torch.meshgrid(torch.arange(6.0).double(), torch.arange(7.0).double(), indexing="ij")
        columns, rows = columns + flow[:, 0], rows + flow[:, 1]
        grid = torch.stack([columns / 6 * 2 - 1, rows / 5 * 2 - 1], 3)
        mode = {"mode": "bilinear", "padding_mode": "border", "align_corners": True}
        inside = (columns >= 0) & (rows >= 0) & (columns < 7) & (rows < 6)
        return torch.nn.functional.grid_sample(x, grid, **mode) * inside[:, None]

    assert_as_torch(results("FlowWarp", x=x, flow=flow), warp, x=x, flow=flow)


def test_pytorch_correlates_alike(rng):
    a, b = rng.normal(size=(2, 2, 4, 6, 5))
    body = "kernel_size: 1 max_displacement: 2 pad: 2"

    def correlate(torch, a, b):
        patches = torch.nn.functional.unfold(b, 5, padding=2).view(2, 4, 25, 6, 5)
        return (a[:, :, None] * patches).mean(1)

    assert_as_torch(results("Correlation", body, a=a, b=b), correlate, a=a, b=b)


@pytest.mark.parametrize(
    ("size", "kind", "mode"), [(14, "LINEAR", "bilinear"), (4, "LINEAR", "bilinear"), (4, "CUBIC", "bicubic")]
)
def test_pytorch_resizes_alike(size, kind, mode, rng):
    x = rng.normal(size=(2, 3, 7, 7))
    actual = results("Resample", f"height: {size} width: {size} type: {kind}", x=x)
    options = {"size": (size, size), "mode": mode, "align_corners": False, "antialias": size < 7}
    assert_as_torch(actual, lambda torch, x: torch.nn.functional.interpolate(x, **options), x=x)


def test_a_flow_out_of_the_image_and_an_unknown_one():
    x, flow = np.ones((1, 1, 1, 3)), np.zeros((1, 2, 1, 3))
    flow[0, 0, 0] = [-0.5, np.nan, 0.75]
    for fill, value in (("ZERO", 0), ("NOT_A_NUMBER", np.nan)):
        top, _ = results("FlowWarp", f"fill_value: {fill}", x=x, flow=flow)
        np.testing.assert_array_equal(top[0, 0, 0], [value, np.nan, 1])


@pytest.mark.parametrize(
    ("body", "loss", "expected"),
    [
        ("", 6, [[1, 0], [0, 1], [-1, 0]]),
        ("normalize_by_num_entries: true", 4, [[2 / 3, 0], [0, 2 / 3], [-2 / 3, 0]]),
        ("plateau: 1.5", 5, [[0, 0], [0, 1], [-1, 0]]),
        ("l2_per_location: true epsilon: 0", 6, [[1, 0], [0, 1], [-1, 0]]),
        ("l2_per_location: true epsilon: 0 plateau: 2.5", 3, [[0, 0], [0, 0], [-1, 0]]),
    ],
)
def test_unknown_values_have_no_loss(body, loss, expected):
    a, b = np.zeros((1, 2, 1, 3)), np.full((1, 2, 1, 3), np.nan)
    b[0, 0, 0, 0], b[0, 1, 0, 1], b[0, 0, 0, 2] = -1, -2, 3
    text = over("L1Loss", f"l1_loss_param {{ {body} }}", a=a.shape, b=b.shape)
    net = bind("force_backward: true\n" + text, keep=True)
    assert run(net, a=a, b=b) == pytest.approx(loss)
    np.testing.assert_allclose(slopes(net, "a")[0, :, 0].T, expected)
    np.testing.assert_allclose(slopes(net, "b"), -slopes(net, "a"))


def test_sizes_of_a_second_bottom(rng):
    x, size = rng.normal(size=(1, 2, 6, 6)), np.zeros((1, 1, 3, 2))
    for kind, body in (("Resample", "height: 3 width: 2"), ("Downsample", "top_height: 3 top_width: 2")):
        tops = []
        for more, parameters in (("", body), ("s", "")):
            net = bind(inputs(x=x.shape, s=size.shape) + layer(kind, "x", *more, body=parameters), "TEST")
            forward(net, x=x)
            tops.append(net.blobs["y"].copy())
        np.testing.assert_array_equal(*tops)


X = inputs(x=(2, 3, 6, 5), z=(2, 2, 6, 4), m=(4, 3), v=(4,))
K = "kernel_size: 3 max_displacement: 2"


test_mistakes = mistaken(
    (layer("Correlation", "x", "@z", body=K), "does not fit"),
    (layer("Correlation", "@m", "m", body=K), "is no batch of images"),
    (layer("Correlation", "@x", "x", body=K), "is too small"),
    (layer("Correlation", "x", "x", body="kernel_size: @2 max_displacement: 2"), "must be odd"),
    (layer("Correlation", "x", "x", body="@correlation_param { kernel_size: 1 }"), "has no max_displacement"),
    (layer("Correlation", "x", "x", body=f"{K} stride_2: @0"), "stride_2 must be positive"),
    (layer("Correlation1D", "@x", "x", body=K), "is too small"),
    (layer("Correlation1D", "x", "x", body=f"{K} pad: 2 single_direction: @2"), "a bad single_direction"),
    (
        layer("Correlation1D", "x", "x", body=f"{K} pad: @0 single_direction: -1"),
        "pad is too small; expected at least stride_2, 1, with single_direction: -1, found 0",
    ),
    (layer("FlowWarp", "x", "@x"), "does not fit"),
    (layer("ChannelNorm", "@v"), "has no channels"),
    ("@" + layer("Resample", "x"), "a bad height"),
    (layer("Resample", "x", body="height: 2 width: 2 type: @AREA"), "AREA is not supported"),
    (layer("Downsample", "x", body="top_height: @1 top_width: 2"), "a bad top_height"),
    (layer("L1Loss", "x", "@z", body="l1_loss_param { }"), "does not fit"),
    (layer("Mean", "@x", body="operation: ADD value: 1 value: 2"), "does not fit"),
    (layer("Mean", "x", body='operation: ADD file: @"m"'), "file is not supported"),
    (layer("Mean", "x", body="@mean_param { operation: ADD }"), "has no value"),
    (layer("Mean", "x", "x", body="operation: ADD value: 1").replace('top: "', 'top: @"'), "has 1 tops"),
    before=X,
)
