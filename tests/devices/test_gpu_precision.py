"""Products of 16-bit numbers on a GPU, and the scale that keeps gradients within them; kernels run by the host."""

import numpy as np
import pytest
from devices.arrays import put
from devices.host.backend import HostBackend, decoded, encoded

from caffelite.devices import ops
from caffelite.devices.cuda import GPU
from caffelite.devices.cuda.scaling import LossScale


@pytest.fixture(params=["fp16", "bf16"])
def dev(request):
    return GPU(0, "float32", HostBackend(), precision=request.param)


def rounded(dev, values):
    return decoded(encoded(values, dev.half_dtype))


def kept(dev, shape):
    """Room as layers get it: they call numbers of 16 bits uint16, whatever they are."""
    array = dev.view(dev.empty((2 * int(np.prod(shape)),), np.uint8), 0, shape, "uint16")
    assert array.dtype == {"fp16": np.float16, "bf16": np.uint16}[dev.precision]
    return array


def test_what_a_device_computes_in():
    for precision, half in (("tf32", False), ("fp32", False), ("fp16", True), ("bf16", True)):
        dev = GPU(0, "float32", HostBackend(), precision=precision)
        assert dev.traits.half == half
    assert not GPU(0, "float64", HostBackend(), precision="fp16").traits.half


@pytest.mark.host
@pytest.mark.parametrize("transpose", [False, True])
def test_inner_product(dev, seed, transpose):
    rng, (m, k, n) = np.random.default_rng(seed), (5, 7, 3)
    x = rng.normal(size=(m, k))
    w, b, dy = rng.normal(size=(k, n) if transpose else (n, k)), rng.normal(size=n), rng.normal(size=(m, n))
    op, y, half = dev.build(ops.InnerProduct(m, k, n, transpose, half=True)), dev.empty((m, n)), kept(dev, (m, k))
    op.forward(put(dev, x), put(dev, w), put(dev, b), y, 0.0, half)
    xr, wr, dyr = rounded(dev, x), rounded(dev, w), rounded(dev, dy)
    turned = wr if transpose else wr.T
    np.testing.assert_allclose(y, np.maximum(xr @ turned + b, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(decoded(half), xr)
    dw = xr.T @ dyr if transpose else dyr.T @ xr
    for wanted in (True, False):
        dx, dw_there, db = dev.empty((m, k)), put(dev, np.full(w.shape, 2.0)), put(dev, np.full(n, 3.0))
        op.backward(half, put(dev, w), put(dev, dy), dx if wanted else None, dw_there, db, True, True)
        np.testing.assert_allclose(dw_there, 2 + dw, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, 3 + dy.sum(0), rtol=1e-4, atol=1e-5)
        if wanted:
            np.testing.assert_allclose(dx, dyr @ turned.T, rtol=1e-4, atol=1e-5)


@pytest.mark.host
def test_lstm(dev, seed):
    """As in float32, but for what rounding h and w takes away."""
    rng, (t, n, d) = np.random.default_rng(seed), (3, 2, 4)
    gates, w, last = rng.normal(size=(t, n, 4 * d)), rng.normal(size=(4 * d, d)), rng.normal(size=(n, d))
    cont, actual = np.ones((t, n)), []
    cont[1, 0] = 0
    for half in (False, True):
        c, h = put(dev, np.zeros((t + 1, n, d))), dev.empty((t, n, d))
        hidden = kept(dev, (t, n, d)) if half else dev.empty((t, n, d))
        given = (put(dev, array) for array in (gates, cont, w, last))
        dev.build(ops.LSTM(t, n, d, half)).forward(*given, hidden, c, h)
        actual.append((h.copy(), c.copy(), decoded(hidden)))
    tolerance = 2e-3 if dev.precision == "fp16" else 2e-2
    for full, cut in zip(*actual, strict=True):
        np.testing.assert_allclose(cut, full, atol=tolerance)
        assert (cut != full).any()


# The scale of a loss


@pytest.fixture
def scale():
    return LossScale(GPU(0, "float32", HostBackend(), precision="fp16"), 1024)


def checked(scale, *gradients):
    scale.check(np.array(gradients, np.float32))
    return float(scale.inverse[0]), bool(scale.skip[0]), *scale.state()


@pytest.mark.host
def test_scale_of_good_and_bad_gradients(scale):
    """(share of these gradients, skip, factor of the next, good ones in a row)"""
    assert scale.factor[0] == 1024
    assert checked(scale, 1, 2) == (1 / 1024, False, 1024, 1)
    assert checked(scale, 1, np.nan, 3) == (1 / 1024, True, 512, 0)
    assert checked(scale, -np.inf, 1) == (1 / 512, True, 256, 0)
    assert checked(scale, 3) == (1 / 256, False, 256, 1)


@pytest.mark.host
def test_scale_grows_with_patience(scale):
    scale.load(512, scale.PATIENCE - 2)
    assert checked(scale, 1) == (1 / 512, False, 512, scale.PATIENCE - 1)
    assert checked(scale, 1) == (1 / 512, False, 1024, 0)
    scale.load(scale.MOST, scale.PATIENCE - 1)
    assert checked(scale, 1)[2:] == (scale.MOST, 0)


@pytest.mark.host
def test_scale_has_a_floor(scale):
    scale.load(1.5)
    assert [checked(scale, np.inf)[2] for _ in range(2)] == [1, 1]


@pytest.mark.host
def test_scale_of_a_sum_that_is_known(scale):
    scale.check_square(np.array([np.inf], np.float32))
    assert scale.skip[0] == 1 and scale.state() == (512, 0)
