"""Products, convolutions, pooling, losses and scores of every device against the oracle."""

import numpy as np
import pytest
import reference
from devices.arrays import CONVOLUTIONS, POOLS, blank, close, put

from caffelite.devices import Window, ops


@pytest.mark.parametrize("slope", [None, 0.0, 0.1])
@pytest.mark.parametrize(
    "m, k, n, transpose", [(1, 1, 1, False), (5, 7, 3, False), (3, 40, 37, True), (130, 2, 1, False)]
)
def test_inner_product(dev, rng, m, k, n, transpose, slope):
    x, w, b, dy = (rng.normal(size=s) for s in ((m, k), (n, k), (n,), (m, n)))
    op = dev.build(ops.InnerProduct(m, k, n, transpose))
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


PLAIN = ("1x1", "pointwise", "LeNet", "stride, pad", "dilation", "groups", "depthwise", "far pad")


@pytest.mark.parametrize("case", PLAIN)
def test_convolution(dev, rng, case):
    shape, m, window, groups = CONVOLUTIONS[case]
    x, w, b = rng.normal(size=shape), rng.normal(size=(m, shape[1] // groups, *window.kernel)), rng.normal(size=m)
    plain = reference.convolution(x, w, None, window, groups)
    dy = rng.normal(size=plain.shape)
    op = dev.build(ops.Convolution(shape, plain.shape, window, groups))
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
    op = dev.build(ops.Convolution((1, 1, 2, 2), (1, 1, 2, 2), Window((1, 1))))
    y = blank(dev, (1, 1, 2, 2))
    op.forward(put(dev, [[[[1, float("nan")], [-1, 2]]]]), put(dev, [[[[1]]]]), put(dev, [0]), y, 0.0)
    np.testing.assert_array_equal(dev.download(y).reshape(-1), [1, float("nan"), 0, 2])


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize("case", POOLS)
def test_pooling(dev, rng, case, method):
    shape, window = POOLS[case]
    x = rng.integers(-4, 4, size=shape) / 2  # ties
    expected, winners = reference.pooling(method, x, window)
    dy = rng.normal(size=expected.shape)
    op = dev.build(ops.Pooling(method, shape, expected.shape, window))
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
    dev.build(ops.Pooling("MAX", x.shape, (1, 1, 1, 1), Window((2, 2)))).forward(put(dev, x), y, index)
    # The CPU compares on: what follows a NaN is larger only if it is a NaN too.
    assert np.isnan(dev.download(y)).all() and dev.download(index).item() == 2


SHAPES = [(1, 1, 1), (3, 10, 1), (2, 70, 1), (2, 5, 6), (1, 33, 3)]


@pytest.mark.parametrize("n, c, p", SHAPES)
def test_softmax(dev, rng, n, c, p):
    x, dy = 30 * rng.normal(size=(n, c, p)), rng.normal(size=(n, c, p))
    x = x.astype(dev.dtype).astype(np.float64)
    op, y, dx = dev.build(ops.Softmax(n, c, p)), blank(dev, (n, c, p)), blank(dev, (n, c, p))
    op.forward(put(dev, x), y)
    expected = reference.softmax(x)
    close(dev, y, expected)
    op.backward(y, put(dev, dy), dx)
    close(dev, dx, reference.softmax_backward(expected, dy))
    over = put(dev, x)
    op.forward(over, over)
    close(dev, over, expected)


LOSSES = (1, 1, 1), (9, 10, 1), (3, 4, 5)
DIVISORS = (None, None), (2, None), (None, 7.0), (-1, 0.5)
MANY = 2100, 3, 1  # rows of several blocks


@pytest.mark.parametrize(
    "n, c, p, ignore, divisor, weighted",
    [(*shape, *by, weighted) for shape in LOSSES for by in DIVISORS for weighted in (False, True)]
    + [(*MANY, None, None, False), (*MANY, -1, 0.5, True)],
)
def test_softmax_loss(dev, rng, n, c, p, ignore, divisor, weighted):
    x, weights = (rng.normal(size=shape).astype(dev.dtype).astype(np.float64) for shape in ((n, c, p), c))
    x[0, 0, 0] = -1e4  # the logarithm of its 0 is that of the least float
    weights = np.abs(weights) if weighted else None
    label = rng.integers(0, c, size=(n, p))
    label.reshape(-1)[0] = 0
    if ignore is not None:
        label.reshape(-1)[1::3] = ignore
    op = dev.build(ops.SoftmaxLoss(n, c, p, ignore, divisor, put(dev, weights) if weighted else None))
    there, prob, loss, dx = (put(dev, x), put(dev, label)), blank(dev, (n, c, p)), blank(dev, ()), blank(dev, (n, c, p))
    exact = reference.softmax(x)
    expected, by, bad = reference.log_loss(exact, label, ignore, divisor, weights)
    total, gradient = put(dev, [3.0]), blank(dev, (n, c, p)) if divisor else None
    for more in ((), (total, 0.5), (None, 0.5, gradient)):
        op.forward(*there, prob, loss, *more)
        close(dev, prob, exact)
        close(dev, loss, expected)
    close(dev, total, [3 + 0.5 * expected])
    if weighted:
        close(dev, op.divisor, [by])
    op.backward(prob, there[1], put(dev, 0.5), dx)
    slopes = reference.log_loss_backward(exact, label, 0.5, by, ignore, weights)
    close(dev, dx, slopes)
    if gradient is not None:
        close(dev, gradient, slopes)
    assert dev.download(op.bad).tolist() == [bad == 0 and 0]


def test_labels_without_weight_leave_no_loss(dev):
    op, loss = dev.build(ops.SoftmaxLoss(3, 2, 1, None, None, put(dev, np.array([0.0, 5.0])))), blank(dev, ())
    x, label, prob, dx = (
        put(dev, np.ones((3, 2, 1))),
        put(dev, np.zeros((3, 1))),
        blank(dev, (3, 2)),
        blank(dev, (3, 2)),
    )
    op.forward(x, label, prob, loss)
    op.backward(prob, label, put(dev, 1.0), dx)
    assert dev.download(loss) == 0 and not dev.download(dx).any()


@pytest.mark.parametrize(
    "n, p, wrong", [(6, 4, {9: -1, 20: 0.5}), (1, 3000, {2999: float("nan"), 2500: 1e9}), (5, 1, {0: 3})]
)
def test_bad_labels(dev, rng, n, p, wrong):
    """The first label ever that was no class is reported, by its place, until someone looks."""
    label = rng.integers(0, 3, size=(n, p)).astype(np.float64)
    good, first = label.copy(), 1 + min(wrong)
    for place, value in wrong.items():
        label.reshape(-1)[place] = value
    x = rng.normal(size=(n, 3, p))
    loss, score = dev.build(ops.SoftmaxLoss(n, 3, p, None, None)), dev.build(ops.Accuracy(n, 3, p, 1, None))
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
    op, score, each = dev.build(ops.Accuracy(n, c, p, top_k, ignore)), blank(dev, ()), blank(dev, c)
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
    dev.build(ops.Accuracy(5, 3, 1, 1, None)).forward(put(dev, x), put(dev, np.zeros((5, 1))), score, None)
    assert dev.download(score)[0] == dev.dtype.type(0.2)


@pytest.mark.parametrize("case", [name for name in PLAIN if CONVOLUTIONS[name][3] == 1])
def test_im2col(dev, rng, case):
    shape, _, window, _ = CONVOLUTIONS[case]
    x = rng.normal(size=shape)
    expected = reference.im2col(x, window)
    dy = rng.normal(size=expected.shape)
    op, columns, dx = dev.build(ops.Im2col(shape, window)), blank(dev, expected.shape), blank(dev, shape)
    op.forward(put(dev, x), columns)
    close(dev, columns, expected)
    op.backward(put(dev, dy), dx)
    close(dev, dx, reference.im2col_backward(x, dy, window), 5)
