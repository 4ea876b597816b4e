"""Every operation of every device against the oracle: on the CPU, on the GPU's kernels run by the host, and on a GPU
where there is one."""

import math
import os

import numpy as np
import pytest
import reference
from devices.host.backend import HostBackend

from caffelite.devices import Window, open_device
from caffelite.devices.cuda import GPU, count
from caffelite.devices.formula import Formula

MAKE = {
    "cpu": lambda dtype: open_device(None, dtype),
    "host": lambda dtype: GPU(0, dtype, HostBackend()),
    "gpu": lambda dtype: open_device(0, dtype, "fp32"),
}
DEVICES = ["cpu", "host", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES, scope="module")
def kind(request):
    if request.param == "gpu" and not count():
        pytest.skip("no usable GPU")
    return request.param


TYPED = [
    ("cpu", "float32"),
    pytest.param(("cpu", "float64"), marks=pytest.mark.slow),  # half a minute of Numba where nothing is cached
    ("host", "float32"),
    ("host", "float64"),
    pytest.param(("gpu", "float32"), marks=pytest.mark.gpu),
    pytest.param(("gpu", "float64"), marks=pytest.mark.gpu),
]


@pytest.fixture(params=TYPED, ids=lambda p: "-".join(p), scope="module")
def dev(request):
    kind, dtype = request.param
    if kind == "gpu" and not count():
        pytest.skip("no usable GPU")
    return MAKE[kind](dtype)


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


GUARD = 0 if os.environ.get("CAFFELITE_HOST_SANITIZE") == "1" else 256  # bytes before and behind an array


def put(dev, array, dtype=None):
    """An array of the device between two guards that nothing may touch; the sanitizers have their own."""
    host = np.asarray(array, dtype or dev.dtype)
    whole = dev.empty((host.nbytes + 2 * GUARD,), np.uint8)
    dev.fill(whole, 0x5A)
    there = dev.view(whole, GUARD, host.shape, host.dtype)
    dev.upload(there, host)
    GUARDED.append((dev, whole, host.nbytes))
    return there


GUARDED: list = []


@pytest.fixture(autouse=True)
def guards():
    """After every test: the bytes before and behind each array are as they were."""
    GUARDED.clear()
    yield
    for dev, whole, size in GUARDED:
        raw = dev.download(whole)
        assert (raw[:GUARD] == 0x5A).all() and (raw[GUARD + size :] == 0x5A).all(), "written outside an array"


def blank(dev, shape, dtype=None):
    """An array whose old contents must not matter."""
    return put(dev, np.full(shape, 77, dtype or dev.dtype), dtype)


def close(dev, there, expected, scale=1.0):
    tolerance = scale * (2e-5 if dev.dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(dev.download(there).astype(np.float64), expected, rtol=tolerance, atol=tolerance)


# memory


def test_memory(dev, rng):
    x = rng.normal(size=(3, 5))
    raw = dev.empty((256,), np.uint8)
    part = dev.view(raw, 64, (3, 5))
    dev.upload(part, x)
    other = dev.zeros((3, 5))
    assert not dev.download(other).any()
    dev.copy(part, other)
    dev.add(part, other)
    close(dev, other, 2 * x.astype(dev.dtype))
    dev.fill(other, 3)
    dev.upload(dev.view(raw, 64, (15,)), np.float64(1))  # a number fills the array, in the array's type
    dev.synchronize()
    assert (dev.download(other) == 3).all() and (dev.download(part) == 1).all()
    copy = dev.download(part)
    dev.fill(part, 0)
    assert (copy == 1).all()
    assert dev.view(raw, 0, (4,), "int32").dtype == np.int32
    space = dev.workspace(100)
    assert space.size == 100 and space.dtype == dev.dtype and dev.workspace(10, np.int64).nbytes == 80


# formulas

CASES = {
    "ReLU": ("where(x > 0, x, slope * x)", lambda x, dy, s: np.where(x > 0, x, 0.1 * x)),
    "Sigmoid'": ("dy * x * (1 - x)", lambda x, dy, s: dy * x * (1 - x)),
    "cross entropy": (
        "max(x, 0) - x * dy + log1p(exp(-abs(x)))",
        lambda x, dy, s: np.maximum(x, 0) - x * dy + np.log1p(np.exp(-abs(x))),
    ),
    "all": (
        "(tanh(x) + sign(dy) * pow(abs(x) + 1.5, 2)) / s + sqrt(abs(dy)) - log(2e0 + x * x) ** 3 - min(x, dy)",
        lambda x, dy, s: (
            (np.tanh(x) + np.sign(dy) * (abs(x) + 1.5) ** 2) / s
            + np.sqrt(abs(dy))
            - np.log(2 + x * x) ** 3
            - np.minimum(x, dy)
        ),
    ),
    "-x - -dy - 2": ("-x - -dy - 2 * (x - (dy - x))", lambda x, dy, s: -x + dy - 2 * (x - (dy - x))),
}


@pytest.mark.parametrize("case", CASES)
def test_map(dev, rng, case):
    text, oracle = CASES[case]
    x, dy, s = rng.normal(size=(3, 700)), rng.normal(size=(3, 700)), np.array([0.7])
    x[0, 0] = dy[0, 1] = 0
    run = dev.map(Formula(text, ("x", "dy"), ("s",), ("slope",)), slope=0.1)
    out = blank(dev, x.shape)
    there = put(dev, x), put(dev, dy), put(dev, s)
    run(*there, out)
    close(dev, out, oracle(x, dy, 0.7), 10)
    run(*there, there[0])
    close(dev, there[0], oracle(x, dy, 0.7), 10)


def test_nan_in_formulas(kind):
    """min and max keep a NaN that comes first, where and sign treat it as every comparison does: alike on all
    devices."""
    dev = MAKE[kind]("float32")
    nan = float("nan")
    a, b = put(dev, [nan, 1, nan, 2]), put(dev, [1, nan, nan, 3])
    out = blank(dev, 4)
    for text, expected in [
        ("max(a, b)", [nan, 1, nan, 3]),
        ("min(a, b)", [nan, 1, nan, 2]),
        ("where(a > b, a, b)", [1, nan, nan, 3]),
        ("sign(a)", [0, 1, 0, 1]),
        ("where(a == b, 1, 2)", [2, 2, 2, 2]),
    ]:
        dev.map(Formula(text, ("a", "b")))(a, b, out)
        np.testing.assert_array_equal(dev.download(out), np.float32(expected), err_msg=text)


def test_numbers_are_of_the_arrays_type(kind):
    """0.1 is float32's 0.1 in a float32 formula: x - 0.1 is then exactly 0."""
    dev = MAKE[kind]("float32")
    out = blank(dev, 1)
    dev.map(Formula("(x - 0.1) * 1e9 + c", ("x",), constants=("c",)), c=-0.25)(put(dev, [0.1]), out)
    assert dev.download(out)[0] == -0.25


@pytest.mark.parametrize("n", [1, 1000, 70_001])
def test_sum(dev, rng, n):
    a, b, s = rng.normal(size=n), rng.normal(size=n), np.array([2.0])
    run = dev.sum(Formula("(a - b) * (a - b) * s * k", ("a", "b"), ("s",), ("k",)), 0.5, k=3)
    expected = 0.5 * 3 * 2 * ((a - b) ** 2).sum()
    arrays = put(dev, a), put(dev, b), put(dev, s)
    out = blank(dev, ())
    run(*arrays, out)
    np.testing.assert_allclose(dev.download(out), expected, rtol=1e-6)
    first = dev.download(out)
    run(*arrays, out, add=True)
    np.testing.assert_allclose(dev.download(out), 2 * expected, rtol=1e-6)
    run(*arrays, out)
    assert dev.download(out) == first


def test_a_formula_chooses_its_names(kind):
    """No name of the loops around a formula may hide one of its own."""
    dev = MAKE[kind]("float64")
    names = ("i", "n", "c", "total", "out", "b", "x", "partial", "add", "start", "stop")
    values = {name: float(k + 2) for k, name in enumerate(names[2:])}
    formula = Formula(" + ".join(names), names[:1], names[1:2], names[2:])
    there, out, expected = (put(dev, [5.0]), put(dev, [7.0])), blank(dev, 1), 12 + sum(values.values())
    dev.map(formula, **values)(*there, out)
    close(dev, out, expected)
    dev.sum(formula, **values)(*there, out)
    close(dev, out, expected)
    dev.channel_map(formula, names[:1], 1, 1, 1, **values)(*there, out)
    close(dev, out, expected)
    for p in (1, 2):
        dev.channel_sum(formula, names[:1], 1, 2, p, **values)(put(dev, [5.0, 5.0]), there[1], twice := blank(dev, 2))
        close(dev, twice, np.full(2, p * expected))
    rule = Formula("w = " + " + ".join(names[2:]), ("w", "g"), constants=names[2:])
    dev.updater(rule, np.array([[0, 1]]), np.ones(1), np.ones(1), **values)(
        put(dev, [1.0]), put(dev, [1.0]), out, there[0]
    )
    close(dev, out, sum(values.values()))


CHANNELS = [
    (1, 1, 1),
    (3, 5, 1),
    (300, 33, 1),
    (5000, 2, 1),
    (9, 1, 1),
    (2, 3, 5),
    (4, 1, 2500),
    (1, 3, 5001),
    (1, 40, 7),
    (1, 6, 1),
]


@pytest.mark.parametrize("n, c, p", CHANNELS)
def test_channel_map(dev, rng, n, c, p):
    x, dy, mean, each, s = *rng.normal(size=(2, n, c, p)), *rng.normal(size=(2, c)), np.array([0.7])
    formula = Formula("(x - mean) * each + k * s * dy", ("x", "mean", "each", "dy"), ("s",), ("k",))
    run = dev.channel_map(formula, ("each", "mean"), n, c, p, k=0.5)
    expected = (x - mean[:, None]) * each[:, None] + 0.35 * dy
    there, out = [put(dev, v) for v in (x, mean, each, dy, s)], blank(dev, (n, c, p))
    run(*there, out)
    close(dev, out, expected, 10)
    run(*there, there[0])  # in place
    close(dev, there[0], expected, 10)


@pytest.mark.parametrize("n, c, p", CHANNELS)
def test_channel_sum(dev, rng, n, c, p):
    x, dy, mean, s = *rng.normal(size=(2, n, c, p)), rng.normal(size=c), np.array([2.0])
    run = dev.channel_sum(
        Formula("(x - mean) * dy * s * k", ("mean", "x", "dy"), ("s",), ("k",)), ("mean",), n, c, p, 0.5, k=3
    )
    expected = 3 * ((x - mean[:, None]) * dy).sum((0, 2))
    arrays, out = [put(dev, v) for v in (mean, x, dy, s)], blank(dev, c)
    run(*arrays, out)
    close(dev, out, expected, 50)
    first = dev.download(out)
    run(*arrays, out, add=True)
    close(dev, out, 2 * expected, 100)
    run(*arrays, out)
    assert (dev.download(out) == first).all()


def test_channel_sums_add_in_float64(kind):
    dev = MAKE[kind]("float32")
    for n, c, p in [(3_000, 2, 1), (2, 3, 1_500)]:
        out = blank(dev, c)
        dev.channel_sum(Formula("x", ("x",)), (), n, c, p)(put(dev, np.full((n, c, p), 0.1)), out)
        np.testing.assert_array_equal(dev.download(out), np.full(c, n * p * np.float64(np.float32(0.1)), "float32"))


@pytest.mark.parametrize("n, c, p", [(2, 3, 5001), (64, 33, 1), (1, 1, 9000)])
def test_channel_sums_on_any_number_of_threads(rng, n, c, p):
    import numba

    values, found, most = rng.normal(size=(n, c, p)), [], numba.get_num_threads()
    for threads in (1, most):
        numba.set_num_threads(threads)
        dev = MAKE["cpu"]("float64")  # where a different order would show
        dev.channel_sum(Formula("x * x", ("x",)), (), n, c, p)(put(dev, values), out := blank(dev, c))
        found.append(dev.download(out))
    np.testing.assert_array_equal(*found)


def test_sums_of_nothing_are_zero(kind):
    dev = MAKE[kind]("float32")
    for n, p in [(0, 1), (0, 4)]:
        x, out = dev.empty((n, 3, p)), blank(dev, 3)
        dev.channel_sum(Formula("x", ("x",)), (), n, 3, p)(x, out)
        dev.channel_map(Formula("2 * x", ("x",)), (), n, 3, p)(x, x)
        assert not dev.download(out).any()


def test_assign_and_add_views(dev, rng):
    x = rng.normal(size=(4, 3, 5)).astype(dev.dtype)
    there, y, whole = put(dev, x), np.full((5, 2, 7), 77, dev.dtype), blank(dev, (5, 2, 7))
    views = {
        "a slice": (lambda a: a[1:3, 0], lambda b: b[:2, 1, 2:]),
        "every other, transposed": (lambda a: a[::2, :2].transpose(2, 1, 0), lambda b: b[..., 1:6:3]),
        "broadcast": (lambda a: a[0, :1, :1], lambda b: b),
        "a row for every row": (lambda a: a[3, 2, :2].reshape(2, 1), lambda b: b[3]),
        "an axis more": (lambda a: a[:, :2, 3], lambda b: b[:4, :, :3].transpose(2, 0, 1)),
        "backwards": (lambda a: a[0, 0, ::-1], lambda b: b[:, 0, 0]),
        "whole rows": (lambda a: a[2, :2], lambda b: b.reshape(-1)[20:30].reshape(2, 5)),
    }
    for name, (source, target) in views.items():
        dev.assign(source(there), target(whole))
        target(y)[...] = source(x)
        np.testing.assert_array_equal(dev.download(whole), y, err_msg=name)
        dev.add(source(there), target(whole))
        target(y)[...] += source(x)
        np.testing.assert_array_equal(dev.download(whole), y, err_msg=name)
    dev.assign(whole[:2].transpose(0, 2, 1), whole[3:].reshape(2, 7, 2))  # from elsewhere in the array itself
    np.testing.assert_array_equal(dev.download(whole)[3:], y[:2].transpose(0, 2, 1).reshape(2, 2, 7))
    numbers = dev.zeros((3, 2), np.int32)
    dev.assign(put(dev, [4, 5, 6], np.int32), numbers[:, 1])
    assert dev.download(numbers).tolist() == [[0, 4], [0, 5], [0, 6]]


def test_sum_adds_in_float64(kind):
    dev = MAKE[kind]("float32")
    out = blank(dev, 1)
    dev.sum(Formula("x", ("x",)))(put(dev, np.full(3_000, 0.1)), out)
    assert dev.download(out)[0] == np.float32(3_000 * np.float64(np.float32(0.1)))


def test_updater(dev, rng):
    """Nesterov over three parameters of 5000, 1 and 300 elements, the last with no rate."""
    ends = [0, 5000, 5001, 5301]
    chunks = np.array([ends[:-1], ends[1:]]).T
    rule = "g = g + decay * w; h_old = h; h = mu * h + rate * g; w = w - (1 + mu) * h + mu * h_old"
    formula = Formula(rule, ("w", "g", "h", "h_old"), constants=("rate", "decay", "mu"))
    w, g, h, spare = rng.normal(size=(4, 5301))
    lr, decay = np.array([1.0, 2.0, 0.0]), np.array([0.01, 0.0, 0.01])
    run = dev.updater(formula, chunks, lr, decay)
    there = [put(dev, v) for v in (w, g, h, spare)]
    run(put(dev, np.array([0.1, 0.9])), put(dev, np.array([0.25])), *there)
    which = np.repeat([0, 1, 2], np.diff(ends))
    new_h = 0.9 * h + 0.1 * lr[which] * (0.25 * g + decay[which] * w)
    close(dev, there[0], w - 1.9 * new_h + 0.9 * h)
    close(dev, there[2], new_h)
    np.testing.assert_array_equal(dev.download(there[1]), g.astype(dev.dtype))


def test_ring(dev):
    ring, expected = dev.ring(4, 3), np.arange(21.0).reshape(7, 3)
    for row in expected:
        ring.append(put(dev, row), 2)
    assert len(ring) == 4
    np.testing.assert_array_equal(ring.last(3, 7), expected[4:] / 2)
    ring.reset(expected[:2])
    ring.append(last := put(dev, expected[6]), clear=True)
    assert not dev.download(last).any()
    np.testing.assert_array_equal(ring.last(3, 3), expected[[0, 1, 6]])


# operations


@pytest.mark.parametrize("slope", [None, 0.0, 0.1])
@pytest.mark.parametrize(
    "m, k, n, transpose", [(1, 1, 1, False), (5, 7, 3, False), (3, 40, 37, True), (130, 2, 1, False)]
)
def test_inner_product(dev, rng, m, k, n, transpose, slope):
    x, w, b, dy = (rng.normal(size=s) for s in ((m, k), (n, k), (n,), (m, n)))
    op = dev.inner_product(m, k, n, transpose)
    there = put(dev, x), put(dev, w.T if transpose else w)
    y = blank(dev, (m, n))
    op.forward(*there, put(dev, b), y, slope)
    close(dev, y, reference.leaky(x @ w.T + b, slope), 10)
    op.forward(*there, None, y, slope)
    close(dev, y, reference.leaky(x @ w.T, slope), 10)
    dx, dw, db = blank(dev, (m, k)), blank(dev, there[1].shape), blank(dev, n)
    expected = dy.T @ x
    for times in (1, 2):
        op.backward(*there, put(dev, dy), dx, dw, db, times == 2, times == 2)
        close(dev, dx, dy @ w, 10)
        close(dev, dw, times * (expected.T if transpose else expected), 10)
        close(dev, db, times * dy.sum(0), 10)
    op.backward(*there, put(dev, dy), None, None, None)


CONVOLUTIONS = {  # x, outputs, window, groups
    "1x1": ((1, 1, 1, 1), 1, Window((1, 1)), 1),
    "pointwise": ((2, 3, 4, 5), 4, Window((1, 1)), 1),
    "LeNet": ((2, 1, 9, 9), 5, Window((5, 5)), 1),
    "stride, pad": ((3, 2, 7, 6), 4, Window((3, 2), (2, 3), (1, 2)), 1),
    "dilation": ((2, 2, 9, 8), 3, Window((3, 2), (1, 2), (2, 1), (2, 3)), 1),
    "groups": ((2, 4, 5, 5), 6, Window((3, 3), (2, 1), (1, 1)), 2),
    "depthwise": ((1, 3, 6, 5), 3, Window((2, 3), pad=(0, 1)), 3),
    "far pad": ((1, 1, 2, 2), 2, Window((1, 1), pad=(3, 3)), 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(dev, rng, case):
    shape, m, window, groups = CONVOLUTIONS[case]
    x, w, b = rng.normal(size=shape), rng.normal(size=(m, shape[1] // groups, *window.kernel)), rng.normal(size=m)
    plain = reference.convolution(x, w, None, window, groups)
    dy = rng.normal(size=plain.shape)
    op = dev.convolution(shape, plain.shape, window, groups)
    there, y = (put(dev, x), put(dev, w)), blank(dev, plain.shape)
    for bias, slope in [(b, None), (b, 0.0), (b, 0.1), (None, None), (None, 0.0)]:
        op.forward(*there, None if bias is None else put(dev, bias), y, slope)
        close(dev, y, reference.leaky(plain if bias is None else plain + b[:, None, None], slope), 10)
    expected = reference.convolution_backward(x, w, dy, window, groups)
    dx, dw, db, dy = blank(dev, shape), blank(dev, w.shape), blank(dev, m), put(dev, dy)
    for times in (1, 2):
        op.backward(*there, dy, dx, dw, db, times == 2, times == 2)
        close(dev, dx, expected[0], 20)
        close(dev, dw, times * expected[1], 20)
        close(dev, db, times * expected[2], 20)
    for wanted in range(3):
        alone = [blank(dev, s) if i == wanted else None for i, s in enumerate((shape, w.shape, (m,)))]
        op.backward(*there, dy, *alone)
        close(dev, alone[wanted], expected[wanted], 20)


def test_fused_relu_keeps_nan(dev):
    """A net that diverges must show it: ReLU of NaN is NaN."""
    op = dev.convolution((1, 1, 2, 2), (1, 1, 2, 2), Window((1, 1)))
    y = blank(dev, (1, 1, 2, 2))
    op.forward(put(dev, [[[[1, float("nan")], [-1, 2]]]]), put(dev, [[[[1]]]]), put(dev, [0]), y, 0.0)
    np.testing.assert_array_equal(dev.download(y).reshape(-1), [1, float("nan"), 0, 2])


POOLS = {  # x, window
    "1x1": ((1, 1, 1, 1), Window((1, 1))),
    "LeNet": ((2, 3, 8, 8), Window((2, 2), (2, 2))),
    "overlap, ceiling": ((2, 2, 8, 7), Window((3, 3), (2, 2))),
    "pad": ((1, 2, 7, 5), Window((3, 2), (2, 3), (1, 1))),
    "pad, last dropped": ((1, 1, 4, 5), Window((2, 3), (2, 2), (1, 2))),
    "gaps": ((1, 2, 7, 9), Window((2, 1), (3, 4))),
    "global": ((2, 2, 3, 5), Window((3, 5))),
    "larger than the image": ((2, 2, 1, 2), Window((2, 3), (2, 2))),
    "larger than the padded image": ((1, 2, 1, 2), Window((4, 5), (2, 3), (1, 1))),
}


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize("case", POOLS)
def test_pooling(dev, rng, case, method):
    shape, window = POOLS[case]
    x = rng.integers(-4, 4, size=shape) / 2  # ties
    expected, winners = reference.pooling(method, x, window)
    dy = rng.normal(size=expected.shape)
    op = dev.pooling(method, shape, expected.shape, window)
    y, index, dx = blank(dev, expected.shape), blank(dev, expected.shape, np.int32), blank(dev, shape)
    op.forward(put(dev, x), y, index)
    close(dev, y, expected)
    if method == "MAX":
        np.testing.assert_array_equal(dev.download(index), winners)
    op.backward(put(dev, dy), index, dx)
    close(dev, dx, reference.pooling_backward(method, x, dy, window))


def test_max_pooling_keeps_nan(dev):
    x = np.array([[[[1, 5], [float("nan"), 3]]]])
    y, index = blank(dev, (1, 1, 1, 1)), blank(dev, (1, 1, 1, 1), np.int32)
    dev.pooling("MAX", x.shape, (1, 1, 1, 1), Window((2, 2))).forward(put(dev, x), y, index)
    # The CPU compares on: what follows a NaN is larger only if it is a NaN too.
    assert np.isnan(dev.download(y)).all() and dev.download(index).item() == 2


SHAPES = [(1, 1, 1), (3, 10, 1), (2, 70, 1), (2, 5, 6), (1, 33, 3)]


@pytest.mark.parametrize("n, c, p", SHAPES)
def test_softmax(dev, rng, n, c, p):
    x, dy = 30 * rng.normal(size=(n, c, p)), rng.normal(size=(n, c, p))
    x = x.astype(dev.dtype).astype(np.float64)
    op, y, dx = dev.softmax(n, c, p), blank(dev, (n, c, p)), blank(dev, (n, c, p))
    op.forward(put(dev, x), y)
    expected = reference.softmax(x)
    close(dev, y, expected)
    op.backward(y, put(dev, dy), dx)
    close(dev, dx, reference.softmax_backward(expected, dy))
    over = put(dev, x)
    op.forward(over, over)
    close(dev, over, expected)


@pytest.mark.parametrize("ignore, divisor", [(None, None), (2, None), (None, 7.0), (-1, 0.5)])
@pytest.mark.parametrize("n, c, p", [(1, 1, 1), (9, 10, 1), (3, 4, 5), (2100, 3, 1)])
def test_softmax_loss(dev, rng, n, c, p, ignore, divisor):
    x = rng.normal(size=(n, c, p)).astype(dev.dtype).astype(np.float64)
    x[0, 0, 0] = -1e4  # the logarithm of its 0 is that of the least float
    label = rng.integers(0, c, size=(n, p))
    label.reshape(-1)[0] = 0
    if ignore is not None:
        label.reshape(-1)[1::3] = ignore
    op = dev.softmax_loss(n, c, p, ignore, divisor)
    there, prob, loss, dx = (put(dev, x), put(dev, label)), blank(dev, (n, c, p)), blank(dev, ()), blank(dev, (n, c, p))
    exact = reference.softmax(x)
    expected, by, bad = reference.log_loss(exact, label, ignore, divisor)
    total = put(dev, [3.0])
    for more in ((), (total, 0.5)):
        op.forward(*there, prob, loss, *more)
        close(dev, prob, exact)
        close(dev, loss, expected)
    close(dev, total, [3 + 0.5 * expected])
    op.backward(prob, there[1], put(dev, 0.5), dx)
    close(dev, dx, reference.log_loss_backward(exact, label, 0.5, by, ignore))
    assert dev.download(op.bad).tolist() == [bad == 0 and 0]


@pytest.mark.parametrize(
    "n, p, wrong", [(6, 4, {9: -1, 20: 0.5}), (1, 3000, {2999: float("nan"), 2500: 1e9}), (5, 1, {0: 3})]
)
def test_bad_labels(dev, rng, n, p, wrong):
    """The first label ever that was no class is told, by its place, until someone looks."""
    label = rng.integers(0, 3, size=(n, p)).astype(np.float64)
    good, first = label.copy(), 1 + min(wrong)
    for place, value in wrong.items():
        label.reshape(-1)[place] = value
    x = rng.normal(size=(n, 3, p))
    loss, score = dev.softmax_loss(n, 3, p, None, None), dev.accuracy(n, 3, p, 1, None)
    there, prob, out = put(dev, x), blank(dev, x.shape), blank(dev, ())
    for op, run in (
        (loss, lambda v: loss.forward(there, v, prob, out)),
        (score, lambda v: score.forward(there, v, out, None)),
    ):
        run(put(dev, good))
        assert dev.download(op.bad).tolist() == [0]
        for later in (label, good, np.full((n, p), -5.0)):
            run(put(dev, later))
            assert dev.download(op.bad).tolist() == [first] and np.isfinite(dev.download(out))
        dev.fill(op.bad, 0)
        last = good.copy()
        last.reshape(-1)[-1] = 3
        run(put(dev, last))
        assert dev.download(op.bad).tolist() == [n * p]


@pytest.mark.parametrize("top_k, ignore", [(1, None), (3, None), (1, 1), (2, 255)])
@pytest.mark.parametrize("n, c, p", [(1, 1, 1), (40, 5, 1), (3, 4, 6), (2, 300, 1)])
def test_accuracy(dev, rng, n, c, p, top_k, ignore):
    x = rng.integers(0, 6, size=(n, c, p)) / 4  # ties
    x[0, c // 2, 0] = np.nan
    label = rng.integers(0, c, size=(n, p))
    if ignore is not None:
        label.reshape(-1)[::4] = ignore
    op, score, each = dev.accuracy(n, c, p, top_k, ignore), blank(dev, ()), blank(dev, c)
    there = put(dev, x), put(dev, label)
    expected = reference.accuracy(x, label, top_k, ignore)
    for _ in range(2):
        op.forward(*there, score, each)
        close(dev, score, expected[0])
        close(dev, each, expected[1])
    shifted = (label + 1) % c
    op.forward(there[0], put(dev, shifted), score, None)  # nothing is left of the runs before
    close(dev, score, reference.accuracy(x, shifted, top_k, ignore)[0])


def test_ties_and_nan_count_as_wrong(dev):
    nan = float("nan")
    x = np.array([[1, 1, 0], [2, 1, 0], [nan, 1, 0], [2, nan, 0], [nan, nan, nan]])[..., None]
    score = blank(dev, 1)
    dev.accuracy(5, 3, 1, 1, None).forward(put(dev, x), put(dev, np.zeros((5, 1))), score, None)
    assert dev.download(score)[0] == dev.dtype.type(0.2)


def test_philox_as_published():
    assert reference.philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert reference.philox((ones,) * 4, (ones, ones)) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize(
    "n, d, ratio, seed, stream, clock",
    [(3, 10, 0.5, 1, 0, (0, 0)), (2, 5, 0.9, 2**64 - 5, 2**32 - 1, (123_456, 7)), (1, 1, 0, 7, 3, (1, 2))],
)
def test_dropout(dev, rng, n, d, ratio, seed, stream, clock):
    """Every device draws the same words, bit by bit."""
    expected = reference.dropout_mask(n, d, ratio, seed, stream, clock[0], clock[1] * n)
    x = rng.normal(size=(n, d))
    old = dev.seed, dev.clock
    dev.seed, dev.clock = seed, clock
    op, mask, y, dx = (
        dev.dropout(n, d, ratio, stream),
        blank(dev, (n, d), np.uint8),
        blank(dev, (n, d)),
        blank(dev, (n, d)),
    )
    op.forward(put(dev, x), mask, y)
    np.testing.assert_array_equal(dev.download(mask), expected)
    close(dev, y, x * expected / (1 - ratio))
    op.backward(mask, put(dev, x), dx)
    close(dev, dx, x * expected / (1 - ratio))
    dev.seed, dev.clock = old


@pytest.mark.parametrize("case", POOLS)
def test_stochastic_pooling(dev, rng, case, monkeypatch):
    shape, window = POOLS[case]
    x = rng.integers(0, 4, size=shape) / 4  # zeros, which must not win, unless all are
    x[0, 0, :2, :2] = 0
    seed, stream, clock = 2**64 - 5, 7, (123_456, 3)
    monkeypatch.setattr(dev, "seed", seed)
    monkeypatch.setattr(dev, "clock", clock)
    expected, winners = reference.stochastic_pooling(x, window, seed, stream, clock[0], clock[1] * shape[0])
    op = dev.pooling("STOCHASTIC", shape, expected.shape, window, stream)
    y, index, dx, dy = (
        blank(dev, expected.shape),
        blank(dev, expected.shape, np.int32),
        blank(dev, shape),
        rng.normal(size=expected.shape),
    )
    op.forward(put(dev, x), y, index)
    np.testing.assert_array_equal(dev.download(index), winners)
    close(dev, y, expected)
    op.backward(put(dev, dy), index, dx)
    drawn = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    for plane, at, v in zip(drawn, winners.reshape(len(drawn), -1), dy.reshape(len(drawn), -1), strict=True):
        np.add.at(plane, at, v)
    close(dev, dx, drawn.reshape(shape))
    dev.pooling("STOCHASTIC", shape, expected.shape, window).forward(put(dev, x), y, None)
    close(dev, y, reference.expected_pooling(x, window))


def test_stochastic_pooling_keeps_nan_and_chances(kind):
    dev = MAKE[kind]("float32")
    x = np.tile([[1.0, 0.0], [0.0, 3.0]], (50, 4, 1, 1))
    x[0, 0, 0] = np.nan, 2
    y, index = blank(dev, (50, 4, 1, 1)), blank(dev, (50, 4, 1, 1), np.int32)
    for stream in (1, None):
        dev.pooling("STOCHASTIC", x.shape, y.shape, Window((2, 2)), stream).forward(put(dev, x), y, index)
        found = dev.download(y).reshape(-1)
        assert np.isnan(found[0]) and not np.isnan(found[1:]).any()
    assert dev.download(index).reshape(-1)[0] == 0
    share = (dev.download(index).reshape(-1)[1:] == 3).mean()
    assert abs(share - 0.75) < 4 * math.sqrt(0.1875 / 199)


@pytest.mark.parametrize(
    "n, c, p, size, beta",
    [(1, 1, 1, 3, 0.75), (2, 7, 6, 5, 0.75), (3, 4, 5, 3, 0.6), (2, 3, 4, 9, 1), (2, 5, 1, 2, 0.75)],
)
def test_lrn(dev, rng, n, c, p, size, beta):
    x, dy = 3 * rng.normal(size=(n, c, p)), rng.normal(size=(n, c, p))
    given, there = (size, 0.7, beta, 1.5), put(dev, x)
    op, scale, y, dx = dev.lrn(n, c, p, *given), *(blank(dev, x.shape) for _ in range(3))
    op.forward(there, scale, y)
    expected = reference.lrn(x, *given)
    close(dev, y, expected[0], 5)
    close(dev, scale, expected[1], 5)
    op.backward(there, y, scale, put(dev, dy), dx)
    close(dev, dx, reference.lrn_backward(x, dy, *given), 10)


@pytest.mark.parametrize("case", [name for name in CONVOLUTIONS if CONVOLUTIONS[name][3] == 1])
def test_im2col(dev, rng, case):
    shape, _, window, _ = CONVOLUTIONS[case]
    x = rng.normal(size=shape)
    expected = reference.im2col(x, window)
    dy = rng.normal(size=expected.shape)
    op, columns, dx = dev.im2col(shape, window), blank(dev, expected.shape), blank(dev, shape)
    op.forward(put(dev, x), columns)
    close(dev, columns, expected)
    op.backward(put(dev, dy), dx)
    close(dev, dx, reference.im2col_backward(x, dy, window), 5)


@pytest.mark.parametrize("rows, width, count", [(1, 1, 1), (6, 5, 9), (3, 130, 7), (300, 2, 700)])
def test_take(dev, rng, rows, width, count):
    table, dout, index = (
        rng.normal(size=(rows, width)),
        rng.normal(size=(count, width)),
        rng.integers(0, rows, size=count),
    )
    op, out, dtable = dev.take(rows, width, count), blank(dev, (count, width)), blank(dev, (rows, width))
    there = put(dev, index)
    op.forward(put(dev, table), there, out)
    close(dev, out, table[index])
    expected = np.zeros((rows, width), dev.dtype)
    np.add.at(expected, index, dout.astype(dev.dtype))
    op.backward(there, put(dev, dout), dtable, False)
    np.testing.assert_array_equal(dev.download(dtable), expected)  # in the order of the index
    op.backward(there, put(dev, dout), dtable, True)
    close(dev, dtable, 2 * expected.astype(np.float64))
    assert dev.download(op.bad).tolist() == [0]


def test_take_tells_of_numbers_that_name_no_row(dev):
    op, out, dtable = dev.take(3, 2, 5), blank(dev, (5, 2)), blank(dev, (3, 2))
    for _ in range(2):
        for index in ([2, -1, 3, float("nan"), 0], [0, 0.5, -0.5, 1e9, 0]):
            op.forward(put(dev, [[1, 2], [3, 4], [5, 6]]), put(dev, index), out)
            op.backward(put(dev, index), put(dev, np.ones((5, 2))), dtable)
    assert dev.download(op.bad).tolist() == [2]
    assert dev.download(out).tolist() == [[1, 2], [0, 0], [0, 0], [0, 0], [1, 2]]
    assert dev.download(dtable).tolist() == [[2, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize("t, n, d", [(1, 1, 1), (3, 9, 5), (2, 7, 33), (4, 1, 20)])
@pytest.mark.parametrize("judged", [True, False])
def test_lstm(dev, rng, t, n, d, judged):
    """Steps, and gradients beside differences of the oracle; where cont is 0, NaN before is forgotten."""
    sums, w, above = (
        rng.normal(size=(t, n, 4 * d)),
        rng.normal(size=(4 * d, d)) / 4,
        rng.normal(size=(t, n, d)) * judged,
    )
    states, ends, cont = rng.normal(size=(2, n, d)), rng.normal(size=(2, n, d)), (rng.random((t, n)) < 0.7) * 0.5

    def run(sums, states):
        cells, outs = [states[1]], [states[0]]
        for step, k in zip(sums, cont[..., None], strict=True):
            c, h = reference.lstm_unit(cells[-1], step + (k * outs[-1]) @ w.T, k)
            cells.append(c)
            outs.append(h)
        return np.stack(cells), np.stack(outs)

    cells, outs = run(sums, states)
    gates, hidden, h, c = (
        put(dev, sums),
        blank(dev, (t, n, d)),
        blank(dev, (t, n, d)),
        put(dev, np.zeros((t + 1, n, d))),
    )
    spoilt = np.where(cont[0, :, None] == 0, np.nan, states)
    dev.upload(c[0], spoilt[1])
    op, there = dev.lstm(t, n, d), (put(dev, cont), put(dev, w))
    op.forward(gates, *there, put(dev, spoilt[0]), hidden, c, h)
    close(dev, h, outs[1:])
    close(dev, c[1:], cells[1:])
    close(dev, hidden, cont[..., None] * outs[:-1])

    dh, dc, dgates = put(dev, ends[0]), put(dev, ends[1]), blank(dev, (t, n, 4 * d))
    op.backward(gates, *there, c, put(dev, above) if judged else None, dh, dc, dgates)
    gradients = [dev.download(a).astype(np.float64) for a in (dgates, dh, dc)]
    steps = [rng.normal(size=g.shape) for g in gradients]
    losses = []
    for sign in (1e-6, -1e-6):
        cells, outs = run(sums + sign * steps[0], states + sign * np.stack(steps[1:]))
        losses.append((above * outs[1:]).sum() + (ends[0] * outs[-1]).sum() + (ends[1] * cells[-1]).sum())
    slope = sum((g * s).sum() for g, s in zip(gradients, steps, strict=True))
    assert slope == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-4, abs=1e-4)


def test_an_lstms_gates_saturate(dev):
    """The cell, to some units in the last place: σ and tanh near 0 and far from it, of NaN too."""
    x = np.concatenate(
        [
            np.linspace(-120, 120, 4001),
            np.geomspace(1e-30, 1, 500),
            -np.geomspace(1e-30, 1, 500),
            [np.inf, -np.inf, np.nan],
        ]
    )
    n = len(x)
    gates = np.stack([x, np.zeros(n), x[::-1], x], 1).astype(dev.dtype)  # c = σ(x) tanh(x)
    there, c, h = put(dev, gates), blank(dev, (n, 1)), blank(dev, (n, 1))
    dev.lstm_unit(n, 1).forward(there, put(dev, np.zeros(n)), put(dev, np.full((n, 1), np.nan)), c, h)
    with np.errstate(over="ignore"):
        exact = gates.astype(np.float64)
        expected = np.concatenate([reference.sigmoid(exact[:, :3]), np.tanh(exact[:, 3:])], 1)
    np.testing.assert_allclose(dev.download(there), expected, rtol=4 * np.finfo(dev.dtype).eps, atol=1e-37)
    close(dev, c, (expected[:, 0] * expected[:, 3])[:, None])


@pytest.mark.parametrize("n, c, p, k", [(1, 1, 1, 1), (4, 9, 1, 9), (2, 70, 1, 3), (3, 6, 5, 2), (2, 5, 3, 5)])
def test_top_k(dev, rng, n, c, p, k):
    x = rng.integers(-3, 3, size=(n, c, p)) / 2  # ties
    x[0, c // 2, 0] = np.nan
    x[-1, :, -1] = np.nan if n > 1 else 1
    x[0, -1, -1] = -np.inf
    values, places = blank(dev, (n, k, p)), blank(dev, (n, k, p))
    dev.top_k(n, c, p, k).forward(put(dev, x), values, places)
    expected = reference.top_k(x, k)
    np.testing.assert_array_equal(dev.download(places), expected[1])
    np.testing.assert_array_equal(dev.download(values), expected[0])


def test_dropout_keeps_its_share(kind):
    dev = MAKE[kind]("float32")
    op, mask, y = dev.dropout(20, 1000, 0.3, 0), blank(dev, (20, 1000), np.uint8), blank(dev, (20, 1000))
    op.forward(put(dev, np.ones((20, 1000))), mask, y)
    assert abs(dev.download(mask).mean() - 0.7) < 4 * math.sqrt(0.21 / 20_000)
