"""Depthwise convolutions by kernels of our own: results against float64, and that threads do not change them."""

import itertools

import engines
import numpy as np
import pytest
import reference
from devices.arrays import to_bfloat16
from engines import first, last

from caffelite.devices import Window, algorithms, ops
from caffelite.devices.cpu.depthwise import DepthwiseConvolution
from caffelite.devices.cpu.kernels import depthwise

# (N, C, H, W), stride, pad: vectors and a rest, blocks and a rest, rows shorter than a block or of several whose pixels
# are all in the image, borders of all kinds
SHAPES = [
    ((2, 16, 7, 7), 1, (1, 1)),
    ((1, 3, 4, 2), 1, (1, 1)),
    ((2, 37, 9, 11), 1, (0, 2)),
    ((2, 32, 14, 15), 2, (1, 1)),
    ((1, 20, 8, 5), 2, (0, 1)),
    ((3, 18, 3, 20), 2, (2, 0)),
    ((2, 18, 4, 45), 1, (1, 1)),
    ((1, 18, 5, 74), 2, (1, 1)),
    ((1, 2, 1, 1), 1, (1, 1)),
    ((1, 2, 1, 1), 2, (1, 1)),
]
TOLERANCE = {False: 2e-6, True: 5e-3}  # relative to the largest value


def problem(seed, x, stride, pad, half=False):
    """(x, w, b, dy) as N×C×H×W, float32 or such numbers that bfloat16 has, and the window."""
    rng, window = np.random.default_rng(seed), Window((3, 3), (stride, stride), pad)
    shapes = x, (x[1], 1, 3, 3), (x[1],), (*x[:2], *window.outputs(x[2:]))
    x, w, b, dy = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return ([to_bfloat16(x), w, b, to_bfloat16(dy)] if half else [x, w, b, dy]), window


def passes(dev, images, window, half=False):
    """(y, dx, dw) of an operation, as N×C×H×W."""
    x, w, b, dy = images
    op = DepthwiseConvolution(dev, ops.Convolution(x.shape, dy.shape, window, half=half))
    narrow, widen = dev.conversions()

    def stored(image):
        if not half:
            return np.ascontiguousarray(last(image), np.float32)
        actual = np.empty(last(image).shape, np.uint16)
        narrow(np.ascontiguousarray(last(image), np.float32), actual)
        return actual

    def shown(array):
        return first(dev.to_float32(array) if half else array)

    x, dy = stored(x), stored(dy)
    y, dx, dw = np.full_like(dy, 7), np.full_like(x, 7), np.full_like(w, 7)
    op.forward(x, w, b, y, 0.1)
    op.data_gradient(dy, w, dx)
    op.weight_gradient(x, dy, dw)
    return shown(y), shown(dx), dw


@pytest.mark.parametrize("half", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fp32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape[0])))
def test_depthwise_passes_equal_float64(seed, shape, half):
    dev = engines.with_onednn()
    images, window = problem(seed, *shape, half)
    x, w, b, dy = (a.astype(np.float64) for a in images)
    y = reference.leaky(reference.convolution(x, w, b, window, x.shape[1]), 0.1)
    dx, dw = reference.convolution_backward(x, w, dy, window, x.shape[1])[:2]
    for actual, expected, tolerance in zip(
        passes(dev, images, window, half),
        (y, dx, dw),
        (TOLERANCE[half], TOLERANCE[half], TOLERANCE[False]),
        strict=True,
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_depthwise_results_do_not_depend_on_threads(seed):
    images, window = problem(seed, *SHAPES[3])
    engines.assert_alike_in_threads(lambda dev: passes(dev, images, window))


def test_a_depthwise_weight_gradient_is_added(seed):
    images, window = problem(seed, *SHAPES[2])
    dev, (x, w, _, dy) = engines.with_onednn(), images
    op = DepthwiseConvolution(dev, ops.Convolution(x.shape, dy.shape, window))
    x, dy = last(x).copy(), last(dy).copy()
    dw = np.zeros_like(w)
    op.weight_gradient(x, dy, dw)
    twice = dw.copy()
    op.weight_gradient(x, dy, twice, add=True)
    np.testing.assert_array_equal(twice, dw + dw)


def test_nan_and_infinity_stay_in_their_windows():
    dev, window, shape = engines.with_onednn(), Window((3, 3), pad=(1, 1)), (1, 16, 9, 9)
    x, y = np.zeros((1, 9, 9, 16), np.float32), np.empty((1, 9, 9, 16), np.float32)
    x[0, 4, 4, 3] = np.nan
    op, w = DepthwiseConvolution(dev, ops.Convolution(shape, shape, window)), np.ones((16, 1, 3, 3), np.float32)
    op.forward(x, w, None, y, 0.0)
    expected = np.zeros((9, 9), bool)
    expected[3:6, 3:6] = True
    assert np.array_equal(np.isnan(y[0, :, :, 3]), expected) and not np.isnan(np.delete(y, 3, axis=3)).any()


def test_depthwise_candidates_follow_from_the_geometry():
    def found(channels, outputs, groups, **window):
        window = Window((3, 3), **{"pad": (1, 1), **window})
        return algorithms.candidates((2, channels, 9, 9), (2, outputs, 9, 9), window, groups, True)

    assert found(32, 32, 32) == found(32, 32, 32, stride=(2, 2)) == ["direct", "depthwise"]
    others = found(32, 64, 32), found(32, 32, 16), found(32, 32, 32, dilation=(2, 2)), found(32, 32, 32, stride=(1, 2))
    assert others == (["direct"],) * 4


def test_the_memory_plan_counts_a_depthwise_workspace(monkeypatch):
    dev, shape, window = engines.with_onednn(), (2, 40, 21, 21), Window((3, 3), pad=(1, 1))
    monkeypatch.setattr(algorithms, "MEASURED_DEPTHWISE", 0)
    op = dev.build(ops.Convolution(shape, shape, window, 40, channels_last=True, algorithm="depthwise"))
    x, dx, y = (dev.zeros((2, 21, 21, 40)) for _ in range(3))
    w, dw = (dev.zeros((40, 1, 3, 3)) for _ in range(2))
    op.forward(x, w, None, y)
    op.backward(x, w, y, dx, dw, None)
    assert dev._workspace.nbytes == algorithms.workspace(shape, shape, window, 40, False, dev.threads, True)


@pytest.mark.parametrize("stride, pad", [(1, (1, 1)), (2, (1, 1)), (1, (0, 2)), (2, (2, 0))])
def test_rows_that_are_copied_apart_give_the_same_bits(rng, stride, pad):
    """Tasks begin anywhere, also in the middle of an image."""
    n, h, w, c = 3, 8, 11, 48
    high, wide = Window((3, 3), (stride, stride), pad).outputs((h, w))
    x, packed, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, h, w, c), (9, c), (c,)))
    (unused, zeros), table = np.zeros((2, c), np.float32), np.zeros(depthwise.TABLE, np.int64)
    what = x, packed, bias, np.float32(0.1)
    how = np.array(pad), stride, unused, table, zeros
    y, other = np.full((n, high, wide, c), 7, np.float32), np.full((n, high, wide, c), 8, np.float32)
    depthwise.convolve_rows(*what, y, *how, 0, n * high)
    ring = np.full(3 * w * (c + 16), np.nan, np.float32)
    cuts = [0, 1, high - 1, high + 2, n * high]
    for first_row, last_row in itertools.pairwise(cuts):
        depthwise.convolve_padded_rows(*what, other, *how, ring, first_row, last_row)
    np.testing.assert_array_equal(other, y)
