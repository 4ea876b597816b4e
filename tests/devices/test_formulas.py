"""Memory and formulas of every device against NumPy."""

import numpy as np
import pytest
from devices.arrays import MAKE, blank, close, put

from caffelite.devices import formula_ops
from caffelite.devices.formula import Formula


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
    update = dev.build(formula_ops.Update(rule, np.array([[0, 1]]), np.ones(1), np.ones(1), values))
    update(put(dev, [1.0]), put(dev, [1.0]), out, there[0])
    close(dev, out, sum(values.values()))


CHANNELS = [
    *((1, 1, 1), (3, 5, 1), (300, 33, 1), (5000, 2, 1), (9, 1, 1)),
    *((2, 3, 5), (4, 1, 2500), (1, 3, 5001), (1, 40, 7), (1, 6, 1)),
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
    formula = Formula("(x - mean) * dy * s * k", ("mean", "x", "dy"), ("s",), ("k",))
    run = dev.channel_sum(formula, ("mean",), n, c, p, 0.5, k=3)
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

    values, actual, most = rng.normal(size=(n, c, p)), [], numba.get_num_threads()
    for threads in (1, most):
        numba.set_num_threads(threads)
        dev = MAKE["cpu"]("float64")  # where a different order would show
        dev.channel_sum(Formula("x * x", ("x",)), (), n, c, p)(put(dev, values), out := blank(dev, c))
        actual.append(dev.download(out))
    np.testing.assert_array_equal(*actual)


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
    run = dev.build(formula_ops.Update(formula, chunks, lr, decay))
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
