"""Random, selecting and recurrent operations of every device against the oracle."""

import math

import numpy as np
import pytest
import reference
from devices.arrays import MAKE, POOLS, blank, close, put

from caffelite.devices import Window, ops


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
    context = dev.make_context(seed)
    context.set_clock(*clock)
    assert context.clock == clock
    op = dev.build(ops.Dropout(n, d, ratio, stream, context))
    mask = blank(dev, (n, d), np.uint8)
    y = blank(dev, (n, d))
    dx = blank(dev, (n, d))
    op.forward(put(dev, x), mask, y)
    np.testing.assert_array_equal(dev.download(mask), expected)
    close(dev, y, x * expected / (1 - ratio))
    op.backward(mask, put(dev, x), dx)
    close(dev, dx, x * expected / (1 - ratio))


@pytest.mark.parametrize(("c", "p", "first"), [(1, 7, 0), (3, 4, 0), (40, 9, 0), (3, 5, 6), (2, 3, 13)])
@pytest.mark.parametrize("in_place", [False, True])
def test_dropout_of_channels_last_images_has_the_same_mask(dev, rng, c, p, first, in_place):
    n, width, clock = 3, first + c * p, (4, 1)
    drawn = reference.dropout_mask(n, width, 0.3, 11, 2, clock[0], clock[1] * n)[:, first:]
    expected = drawn.reshape(n, c, p).transpose(0, 2, 1)
    x, context = rng.normal(size=(n, p, c)), dev.make_context(11)
    context.set_clock(*clock)
    piece = ops.MaskPiece(0, n, first) if first else None
    op = dev.build(ops.Dropout(n, c * p, 0.3, 2, context, piece, c))
    there, mask = put(dev, x), blank(dev, (n, p, c), np.uint8)
    y = there if in_place else blank(dev, (n, p, c))
    op.forward(there, mask, y)
    np.testing.assert_array_equal(dev.download(mask), expected)
    close(dev, y, x * expected / 0.7)
    dy = put(dev, x)
    op.backward(mask, dy, dy)
    close(dev, dy, x * expected / 0.7)


@pytest.mark.parametrize(
    ("row", "column", "n", "d"), [(0, 5, 6, 6), (2, 0, 3, 20), (0, 8, 6, 12), (1, 3, 2, 17), (0, 19, 6, 1)]
)
def test_a_part_of_a_dropout_mask(dev, rng, row, column, n, d):
    """A device that has a part of a blob draws that part of the whole mask."""
    rows, width, clock = 6, 20, (12, 3)
    expected = reference.dropout_mask(rows, width, 0.4, 9, 5, clock[0], clock[1] * rows)
    expected = expected[row : row + n, column : column + d]
    x, context = rng.normal(size=(n, d)), dev.make_context(9)
    context.set_clock(*clock)
    op = dev.build(ops.Dropout(n, d, 0.4, 5, context, ops.MaskPiece(row, rows, column)))
    mask, y = blank(dev, (n, d), np.uint8), blank(dev, (n, d))
    op.forward(put(dev, x), mask, y)
    np.testing.assert_array_equal(dev.download(mask), expected)
    close(dev, y, x * expected / 0.6)


def test_uniform_numbers(dev):
    """The words of Dropout's mask, as numbers of a range."""
    n, d, seed, stream, clock = 3, 6, 2**64 - 5, 7, (123_456, 2)
    context, out = dev.make_context(seed), blank(dev, (n, d))
    context.set_clock(*clock)
    dev.build(ops.Uniform(n, d, -2.0, 3.0, stream, context)).forward(out)
    expected = np.empty((n, d))
    for row, i in np.ndindex(n, d):
        words = reference.philox((i // 4, clock[1] * n + row, clock[0], stream), (seed % 2**32, seed >> 32))
        expected[row, i] = -2 + 5 * (words[i % 4] + 0.5) / 2**32
    close(dev, out, expected)


@pytest.mark.parametrize("squared", [True, False])
def test_distances(dev, rng, squared):
    m, n, k = 5, 3, 7
    x, w, dy = rng.normal(size=(m, k)), rng.normal(size=(n, k)), rng.normal(size=(m, n))
    op, y, dx, dw = dev.build(ops.Distances(m, n, k, squared)), blank(dev, (m, n)), blank(dev, (m, k)), put(dev, w)
    gap = x[:, None] - w[None]
    slope = 2 * gap if squared else np.sign(gap)
    op.forward(put(dev, x), put(dev, w), y)
    close(dev, y, (gap**2 if squared else np.abs(gap)).sum(2))
    op.backward_x(put(dev, x), put(dev, w), put(dev, dy), dx)
    close(dev, dx, (dy[:, :, None] * slope).sum(1))
    op.backward_w(put(dev, x), put(dev, w), put(dev, dy), dw, True)
    close(dev, dw, w - (dy[:, :, None] * slope).sum(0))
    op.backward_w(put(dev, x), put(dev, w), put(dev, dy), dw)
    close(dev, dw, -(dy[:, :, None] * slope).sum(0))


@pytest.mark.parametrize("case", POOLS)
def test_stochastic_pooling(dev, rng, case):
    shape, window = POOLS[case]
    x = rng.integers(0, 4, size=shape) / 4  # zeros, which must not win, unless all are
    x[0, 0, :2, :2] = 0
    seed, key, clock = 2**64 - 5, 7, (123_456, 3)
    context = dev.make_context(seed)
    context.set_clock(*clock)
    expected, winners = reference.stochastic_pooling(x, window, seed, key, clock[0], clock[1] * shape[0])
    op = dev.build(ops.Pooling("STOCHASTIC", shape, expected.shape, window, layer_key=key, context=context))
    y = blank(dev, expected.shape)
    index = blank(dev, expected.shape, np.int32)
    dx = blank(dev, shape)
    dy = rng.normal(size=expected.shape)
    op.forward(put(dev, x), y, index)
    np.testing.assert_array_equal(dev.download(index), winners)
    close(dev, y, expected)
    op.backward(put(dev, dy), index, dx)
    drawn = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    for plane, at, v in zip(drawn, winners.reshape(len(drawn), -1), dy.reshape(len(drawn), -1), strict=True):
        np.add.at(plane, at, v)
    close(dev, dx, drawn.reshape(shape))
    dev.build(ops.Pooling("STOCHASTIC", shape, expected.shape, window)).forward(put(dev, x), y, None)
    close(dev, y, reference.expected_pooling(x, window))


def test_stochastic_pooling_keeps_nan_and_chances(kind):
    dev = MAKE[kind]("float32")
    x = np.tile([[1.0, 0.0], [0.0, 3.0]], (50, 4, 1, 1))
    x[0, 0, 0] = np.nan, 2
    y, index = blank(dev, (50, 4, 1, 1)), blank(dev, (50, 4, 1, 1), np.int32)
    context = dev.make_context()
    context.set_clock(0, 0)
    for drawn in (context, None):
        op = ops.Pooling("STOCHASTIC", x.shape, y.shape, Window((2, 2)), layer_key=1, context=drawn)
        dev.build(op).forward(put(dev, x), y, index)
        actual = dev.download(y).reshape(-1)
        assert np.isnan(actual[0]) and not np.isnan(actual[1:]).any()
    assert dev.download(index).reshape(-1)[0] == 0
    share = (dev.download(index).reshape(-1)[1:] == 3).mean()
    assert abs(share - 0.75) < 4 * math.sqrt(0.1875 / 199)


@pytest.mark.parametrize(
    "n, c, p, size, beta",
    [(1, 1, 1, 3, 0.75), (2, 7, 6, 5, 0.75), (3, 4, 5, 3, 0.6), (2, 3, 4, 9, 1), (2, 5, 1, 2, 0.75)]
    + [(300, 7, 1, 5, 0.75), (2, 1030, 1, 3, 0.6), (3, 5, 1, 35, 1)],  # rows in tiles; wider than what tiles reach
)
def test_lrn(dev, rng, n, c, p, size, beta):
    x, dy = 3 * rng.normal(size=(n, c, p)), rng.normal(size=(n, c, p))
    given, there = (size, 0.7, beta, 1.5), put(dev, x)
    op, scale, y, dx = dev.build(ops.LRN(n, c, p, *given)), *(blank(dev, x.shape) for _ in range(3))
    op.forward(there, scale, y)
    expected = reference.lrn(x, *given)
    close(dev, y, expected[0], 5)
    close(dev, scale, expected[1], 5)
    op.backward(there, y, scale, put(dev, dy), dx)
    close(dev, dx, reference.lrn_backward(x, dy, *given), 10)


@pytest.mark.parametrize("rows, width, count", [(1, 1, 1), (6, 5, 9), (3, 130, 7), (300, 2, 700)])
def test_take(dev, rng, rows, width, count):
    table = rng.normal(size=(rows, width))
    dout = rng.normal(size=(count, width))
    index = rng.integers(0, rows, size=count)
    op, out, dtable = dev.build(ops.Take(rows, width, count)), blank(dev, (count, width)), blank(dev, (rows, width))
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


def test_take_reports_numbers_that_name_no_row(dev):
    op, out, dtable = dev.build(ops.Take(3, 2, 5)), blank(dev, (5, 2)), blank(dev, (3, 2))
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
    """Steps, and gradients compared with differences of the oracle; where cont is 0, NaN before is forgotten."""
    sums = rng.normal(size=(t, n, 4 * d))
    w = rng.normal(size=(4 * d, d)) / 4
    above = rng.normal(size=(t, n, d)) * judged
    states, ends, cont = rng.normal(size=(2, n, d)), rng.normal(size=(2, n, d)), (rng.random((t, n)) < 0.7) * 0.5

    def run(sums, states):
        cells, outs = [states[1]], [states[0]]
        for step, k in zip(sums, cont[..., None], strict=True):
            c, h = reference.lstm_unit(cells[-1], step + (k * outs[-1]) @ w.T, k)
            cells.append(c)
            outs.append(h)
        return np.stack(cells), np.stack(outs)

    cells, outs = run(sums, states)
    gates, c = put(dev, sums), put(dev, np.zeros((t + 1, n, d)))
    hidden, h = blank(dev, (t, n, d)), blank(dev, (t, n, d))
    corrupted = np.where(cont[0, :, None] == 0, np.nan, states)
    dev.upload(c[0], corrupted[1])
    op, there = dev.build(ops.LSTM(t, n, d)), (put(dev, cont), put(dev, w))
    op.forward(gates, *there, put(dev, corrupted[0]), hidden, c, h)
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
    small = np.geomspace(1e-30, 1, 500)
    x = np.concatenate([np.linspace(-120, 120, 4001), small, -small, [np.inf, -np.inf, np.nan]])
    n = len(x)
    gates = np.stack([x, np.zeros(n), x[::-1], x], 1).astype(dev.dtype)  # c = σ(x) tanh(x)
    there, c, h = put(dev, gates), blank(dev, (n, 1)), blank(dev, (n, 1))
    dev.build(ops.LSTMUnit(n, 1)).forward(there, put(dev, np.zeros(n)), put(dev, np.full((n, 1), np.nan)), c, h)
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
    dev.build(ops.TopK(n, c, p, k)).forward(put(dev, x), values, places)
    expected = reference.top_k(x, k)
    np.testing.assert_array_equal(dev.download(places), expected[1])
    np.testing.assert_array_equal(dev.download(values), expected[0])


def test_dropout_keeps_its_share(kind):
    dev = MAKE[kind]("float32")
    context = dev.make_context()
    context.set_clock(0, 0)
    op = dev.build(ops.Dropout(20, 1000, 0.3, 0, context))
    mask, y = blank(dev, (20, 1000), np.uint8), blank(dev, (20, 1000))
    op.forward(put(dev, np.ones((20, 1000))), mask, y)
    assert abs(dev.download(mask).mean() - 0.7) < 4 * math.sqrt(0.21 / 20_000)
