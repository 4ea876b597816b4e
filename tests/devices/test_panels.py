"""Products by packed weights, and an LSTM's steps of bfloat16 numbers: by the processor's instruction and without
it."""

import numpy as np
import pytest
import reference
from numba import njit

from caffelite.devices import ops
from caffelite.devices.cpu import CPU
from caffelite.devices.cpu.kernels import panels, reorders


def rounded(x):
    """The bfloat16 next to float32 numbers, as float64."""
    return widened(np.array([panels.half(np.float32(v)) for v in np.ravel(x)], np.uint16)).reshape(np.shape(x))


def widened(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def packed(w, turned: bool):
    """w (K, M) as it is packed."""
    width, given = panels.WIDTH // (8 if w.dtype == np.float64 else 4), np.ascontiguousarray(w.T) if turned else w
    actual = np.full((-(-w.shape[1] // width), w.shape[0], width), np.nan, w.dtype)
    panels.pack(given, turned, actual)
    return actual


def packed_halves(w, turned: bool):
    lanes = panels.WIDTH // 4
    actual = np.full((-(-w.shape[1] // lanes), 1, w.shape[0] // 2, lanes), 0x7FC07FC0, np.uint32)
    if turned:
        reorders.pack_outputs(np.ascontiguousarray(w.T), actual, np.empty((1, lanes, 8), np.uint32))
    else:
        reorders.pack_inputs(w, actual, np.empty((1, reorders.ROWS, actual.shape[0] * lanes), np.uint32))
    return actual[:, 0].view(np.uint16)


SIZES = pytest.mark.parametrize(
    "n, k, m", [(1, 2, 1), (panels.ROWS + 1, 6, 33), (5, 2 * panels.DEPTH + 4, 70), (7, 4, 9), (3 * panels.ROWS, 8, 32)]
)


@SIZES
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turned", [True, False])
def test_product(n, k, m, dtype, turned, seed):
    rng = np.random.default_rng(seed)
    a, w, whole = (rng.normal(size=shape).astype(dtype) for shape in ((n, k + 3), (k, m), (n + 1, m + 2)))
    expected, c = whole.copy(), whole[:n, 1 : 1 + m]  # rows with gaps, into which nothing is written
    expected[:n, 1 : 1 + m] += (a[:, :k].astype(np.float64) @ w).astype(dtype)
    panels.multiply(a[:, :k], packed(w, turned), c)
    np.testing.assert_allclose(whole, expected, *((1e-4, 1e-4) if dtype == "float32" else (1e-12, 1e-12)))


@SIZES
@pytest.mark.parametrize("turned", [True, False])
def test_product_of_halves(n, k, m, turned, seed):
    rng = np.random.default_rng(seed)
    a, w = rng.normal(size=(n, k)).astype(np.float32), rng.normal(size=(k, m)).astype(np.float32)
    halves = np.array([panels.half(v) for v in a.ravel()], np.uint16).reshape(n, k)
    c = np.ones((n, m), np.float32)
    panels.multiply(halves, packed_halves(w, turned), c)
    np.testing.assert_allclose(c, 1 + rounded(a) @ rounded(w), rtol=1e-4, atol=1e-4)


def test_halves_without_the_instruction(seed, monkeypatch):
    monkeypatch.setattr(panels, "_FEATURES", "")
    k, width = 6, panels.WIDTH // 4

    tile = panels._tile

    @njit
    def run(a, w, c):
        zero = w.dtype.type(0)
        tile(a.ctypes.data, a.strides[0], w.ctypes.data, c.ctypes.data, c.strides[0], k // 2, 1, c.shape[1], zero)

    rng = np.random.default_rng(seed)
    a, w, c = rng.normal(size=(1, k)), rng.normal(size=(k, width)).astype(np.float32), np.ones((1, width), np.float32)
    run(np.array([[panels.half(np.float32(v)) for v in a[0]]], np.uint16), packed_halves(w, False)[0], c)
    np.testing.assert_allclose(c, 1 + rounded(a) @ rounded(w), rtol=1e-5, atol=1e-5)


def test_rounding():
    """To the nearest, even of equals; NaN stays NaN."""
    given = [1, 1.00390625, 1.01171875, -1.0039064, 3.4e38, 1e-45, np.inf, -np.inf]
    assert rounded(given).tolist() == [1, 1, 1.015625, -1.0078125, np.inf, 0, np.inf, -np.inf]
    odd = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(rounded(odd)).all()


@pytest.mark.slow
def test_lstm_of_halves(seed):
    """Each step from what forward left, and each gradient, with the products' factors rounded and nothing else."""
    t, n, d = 3, panels.ROWS + 3, 6
    rng, dev = np.random.default_rng(seed), CPU()
    sums = rng.normal(size=(t, n, 4 * d))
    w = rng.normal(size=(4 * d, d))
    above = rng.normal(size=(t, n, d))
    cont = rng.random((t, n)) < 0.7
    gates, w, above, cont = (np.ascontiguousarray(v, np.float32) for v in (sums, w, above, cont))
    last = rng.normal(size=(n, d)).astype(np.float32)
    c = np.zeros((t + 1, n, d), np.float32)
    h = np.empty((t, n, d), np.float32)
    hidden, op = np.empty((t, n, d), np.uint16), dev.build(ops.LSTM(t, n, d, half=True))
    op.forward(gates, cont, w, last, hidden, c, h)
    before = np.concatenate([last[None], h[:-1]])
    np.testing.assert_array_equal(widened(hidden), rounded(cont[..., None] * before))
    for step in range(t):
        expected = reference.lstm_unit(c[step], sums[step] + widened(hidden[step]) @ rounded(w).T, cont[step][:, None])
        for actual, value in zip((c[step + 1], h[step]), expected, strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-4, atol=1e-5)

    whole = [np.empty((t, n, 4 * d), np.float32), np.ones((n, d), np.float32), np.zeros((n, d), np.float32)]
    op.backward(gates, cont, w, c, above, whole[1], whole[2], whole[0])
    dh, dc, dgates = np.ones((n, d), np.float32), np.zeros((n, d), np.float32), np.empty((n, 4 * d), np.float32)
    for step in reversed(range(t)):
        op = dev.build(ops.LSTMUnit(n, d))
        op.backward(gates[step], cont[step], c[step], c[step + 1], dh + above[step], dc, dgates)
        np.testing.assert_allclose(whole[0][step], dgates, rtol=1e-4, atol=1e-5)
        dh = (cont[step][:, None] * (rounded(whole[0][step]) @ rounded(w))).astype(np.float32)
    np.testing.assert_allclose(whole[1], dh, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole[2], dc, rtol=1e-4, atol=1e-5)
