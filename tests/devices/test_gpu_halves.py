"""The GPU's kernels on blobs of 16-bit numbers, run by the host: what they compute is what float32 ones do, rounded
once."""

import numpy as np
import pytest
from devices.host.backend import HostBackend, decoded, encoded

from caffelite.devices import Window, ops
from caffelite.devices.cuda import GPU
from caffelite.devices.formula import Formula

pytestmark = pytest.mark.host


@pytest.fixture(params=["float16", "uint16"], ids=["fp16", "bf16"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture(scope="module")
def dev():
    return GPU(0, "float32", HostBackend())


@pytest.fixture
def draw(seed, dtype):
    """Numbers that both types hold: (of 16 bits, the same in float32)."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        narrow = encoded(rng.normal(size=shape).astype(np.float32), dtype)
        return narrow, decoded(narrow).astype(np.float32)

    return draw


def alike(narrow, wide):
    """Equal, but that the one was rounded."""
    np.testing.assert_array_equal(narrow, encoded(wide, narrow.dtype))


def blank(dev, *shape, dtype=None):
    return dev.empty(shape, dtype)


@np.errstate(invalid="ignore", over="ignore")
def test_every_number_converts(dev, dtype):
    """All bit patterns to float32 and back; and values between two of them, or beyond all."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    widen = narrow = dev.map(Formula("x", ("x",)))
    widen(every, wide := blank(dev, 1 << 16))
    np.testing.assert_array_equal(wide, decoded(every).astype(np.float32))
    narrow(wide, back := blank(dev, 1 << 16, dtype=dtype))
    good = ~np.isnan(wide)
    np.testing.assert_array_equal(back[good].view(np.uint16), every[good].view(np.uint16))
    assert np.isnan(decoded(back)[~good]).all()
    finite = np.sort(wide[np.isfinite(wide)].astype(np.float64))
    between = ((finite[:-1] + finite[1:]) / 2).astype(np.float32)
    values = np.concatenate([between, np.nextafter(between, np.inf), np.nextafter(between, -np.inf)]).astype(np.float32)
    narrow(values, actual := blank(dev, values.size, dtype=dtype))
    np.testing.assert_array_equal(decoded(actual), decoded(encoded(values, dtype)))


@pytest.mark.parametrize("n", [1, 7, 64, 1003])
def test_map_of_several_types(dev, draw, dtype, n):
    (x, wide), other = draw(n), np.random.default_rng(n).normal(size=n).astype(np.float32)
    run = dev.map(Formula("x * y + s", ("x", "y"), ("s",)))
    s = np.array([0.25], np.float32)
    run(wide, other, s, expected := blank(dev, n))
    run(x, other, s, actual := blank(dev, n, dtype=dtype))
    alike(actual, expected)
    run(x, other, s, actual := blank(dev, n))
    np.testing.assert_array_equal(actual, expected)
    dev.sum(Formula("x * x", ("x",)))(x, total := blank(dev, 1))
    np.testing.assert_allclose(total, (wide.astype(np.float64) ** 2).sum(), rtol=1e-6)


@pytest.mark.parametrize("n, c, p", [(33, 24, 1), (400, 7, 1), (3, 5, 16), (2, 3, 35), (6000, 16, 1)])
def test_channels(dev, draw, dtype, n, c, p):
    (x, wide), (dy, slopes), each = draw(n, c, p), draw(n, c, p), np.linspace(-1, 1, c, dtype=np.float32)
    run = dev.channel_map(Formula("x * s", ("x", "s")), ("s",), n, c, p)
    run(wide, each, expected := blank(dev, n, c, p))
    run(x, each, actual := blank(dev, n, c, p, dtype=dtype))
    alike(actual, expected)
    sums = dev.channel_sums((Formula("dy", ("dy",)), Formula("dy * x", ("dy", "x"))), (), n, c, p)
    sums(dy, x, outs := (blank(dev, c), blank(dev, c)))
    for out, values in zip(outs, (slopes, slopes * wide), strict=True):
        np.testing.assert_allclose(out, values.astype(np.float64).sum((0, 2)), rtol=1e-5, atol=1e-4)
    mean, scale, *remembered = blank(dev, c), blank(dev, c), dev.zeros(c), dev.zeros(c), dev.zeros(1)
    dev.batch_moments(n, c, p, 0.1, 0.5)(x, mean, scale, *remembered)
    np.testing.assert_allclose(mean, wide.mean((0, 2), np.float64), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scale, 1 / np.sqrt(wide.var((0, 2), np.float64) + 0.1), rtol=1e-5)
    expected = np.where(wide > 0, slopes, np.float32(0.1) * slopes)
    dev.relu_backward(n, c, p, 0.1)(x, dy, db := blank(dev, c))
    alike(dy, expected)
    np.testing.assert_allclose(db, expected.astype(np.float64).sum((0, 2)), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("channels", [8, 6, 3])
@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize("last", [True, False])
def test_pooling(dev, draw, dtype, method, channels, last):
    window, x_shape, y_shape = Window((3, 2), (2, 2), (1, 0)), (2, channels, 7, 8), (2, channels, 4, 4)
    turned = [(s[0], s[2], s[3], s[1]) if last else s for s in (x_shape, y_shape)]
    (x, wide), (dy, slopes) = draw(*turned[0]), draw(*turned[1])
    op = dev.build(ops.Pooling(method, x_shape, y_shape, window, last))
    index = blank(dev, *turned[1], dtype="uint8" if last else "int32")
    op.forward(wide, expected := blank(dev, *turned[1]), index)
    op.backward(slopes, index, back := blank(dev, *turned[0]))
    op.forward(x, actual := blank(dev, *turned[1], dtype=dtype), index)
    alike(actual, expected)
    op.backward(dy, index, dx := blank(dev, *turned[0], dtype=dtype))
    alike(dx, back)


@pytest.mark.parametrize("n, c, p", [(6, 40, 1), (2, 35, 6)])
def test_lrn(dev, draw, dtype, n, c, p):
    (x, wide), (dy, slopes), op = draw(n, c, p), draw(n, c, p), dev.build(ops.LRN(n, c, p, 5, 0.5, 0.75, 1.0))
    op.forward(wide, scale := blank(dev, n, c, p), expected := blank(dev, n, c, p))
    op.forward(x, same := blank(dev, n, c, p), y := blank(dev, n, c, p, dtype=dtype))
    alike(y, expected)
    np.testing.assert_array_equal(same, scale)
    op.backward(wide, decoded(y).astype(np.float32), scale, slopes, expected := blank(dev, n, c, p))
    op.backward(x, y, scale, dy, dx := blank(dev, n, c, p, dtype=dtype))
    alike(dx, expected)


@pytest.mark.parametrize("n, d", [(3, 16), (2, 7)])
def test_dropout(dev, draw, dtype, n, d):
    context = dev.make_context()
    context.set_clock(0, 0)
    (x, wide), op, masks = (
        draw(n, d),
        dev.build(ops.Dropout(n, d, 0.4, 1, context)),
        [blank(dev, n, d, dtype="uint8") for _ in range(2)],
    )
    op.forward(wide, masks[0], expected := blank(dev, n, d))
    op.forward(x, masks[1], y := blank(dev, n, d, dtype=dtype))
    np.testing.assert_array_equal(*masks)
    alike(y, expected)
    op.backward(masks[0], wide, expected := blank(dev, n, d))
    op.backward(masks[1], x, dx := blank(dev, n, d, dtype=dtype))
    alike(dx, expected)


@pytest.mark.parametrize("n, a, b", [(2, 3, 40), (2, 40, 33), (1, 64, 64)])
def test_copies(dev, draw, dtype, n, a, b):
    x, _ = draw(n, a, b)
    dev.transpose(x, turned := blank(dev, n, b, a, dtype=dtype))
    np.testing.assert_array_equal(turned, x.transpose(0, 2, 1))
    for width, start in ((8, 16), (5, 3)):
        part, whole = draw(n * a, width)[0], blank(dev, n * a, 40, dtype=dtype)
        dev.copy_into(part, whole, start)
        np.testing.assert_array_equal(whole[:, start : start + width], part)
        dev.copy_out(whole, start, out := blank(dev, n * a, width, dtype=dtype))
        np.testing.assert_array_equal(out, part)
