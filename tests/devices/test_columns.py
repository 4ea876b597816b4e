"""Convolutions as products of columns: those of few channels read the images' rows in place of copied columns."""

import numpy as np
import pytest
import scipy.signal

from caffelite.devices import ops
from caffelite.devices.cpu import CPU, prepared
from caffelite.devices.window import Window


@pytest.fixture(scope="module")
def dev():
    return CPU()


def convolved(dev, x, w, b, stride, pad, block=None):
    """y (N, OH, OW, M) of x (N, H, W, C), and whether it read rows."""
    n, h, wide, c = x.shape
    m, _, *kernel = w.shape
    out = [(side + 2 * p - k) // s + 1 for side, p, k, s in zip((h, wide), pad, kernel, stride, strict=True)]
    window = Window(tuple(kernel), stride, pad, (1, 1))
    op = prepared.ColumnsConvolution(dev, ops.Convolution((n, c, h, wide), (n, m, *out), window, channels_last=True))
    op._block = block or op._block
    op.prepare(w, b, np.full(m, 0.5, np.float32))
    y = np.full((n, *out, m), np.nan, np.float32)
    op.run(x, y)
    return y, op.by_rows


def arrays(c, m, kernel, size=(13, 48)):
    rng = np.random.default_rng(c * m)
    shapes = (2, *size, c), (m, c, *kernel), (m,)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("pad", [(0, 0), (1, 1), (2, 0), (3, 4)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("m", [5, 40, 64, 70])
def test_rows_give_the_bits_of_columns(dev, pad, stride, m, monkeypatch):
    x, w, b = arrays(3, m, (5, 3))
    monkeypatch.setattr(prepared, "FEW_CHANNELS", 0)
    copied, by_rows = convolved(dev, x, w, b, stride, pad)
    assert not by_rows
    monkeypatch.setattr(prepared, "FEW_CHANNELS", 3)
    monkeypatch.setattr(prepared, "FULL", 0)
    for block in (None, 1, 7):
        rows, by_rows = convolved(dev, x, w, b, stride, pad, block)
        assert by_rows
        np.testing.assert_array_equal(rows, copied)


def test_the_numbers_are_those_of_a_convolution(dev):
    x, w, b = arrays(3, 20, (3, 5))
    y, by_rows = convolved(dev, x, w, b, (2, 2), (1, 2))
    assert by_rows
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (2, 2), (0, 0)))
    for n, m in np.ndindex(2, 20):
        expected = b[m] + sum(scipy.signal.correlate(padded[n, ..., c], w[m, c], "valid") for c in range(3))[::2, ::2]
        np.testing.assert_allclose(y[n, ..., m], np.where(expected > 0, expected, expected / 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("c, size", [(17, (13, 48)), (3, (13, 5))])
def test_many_channels_and_narrow_images_take_columns(dev, c, size):
    x, w, b = arrays(c, 64, (3, 3), size)
    assert not convolved(dev, x, w, b, (1, 1), (1, 1))[1]
