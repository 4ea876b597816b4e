"""Checks of the device's kernels against NumPy, one check per family."""

from __future__ import annotations

import numpy as np

from ..devices import Window
from ..devices.formula import Formula
from .bench import Bench, compare, put, rng

NEAR = 2e-5  # tolerance of float32 numbers, some computed by exp and log


def elementwise(bench: Bench) -> str:
    """kernels: formulas and dropout"""
    dev, x = bench.device(), rng().normal(size=(70, 1001)).astype(np.float32)
    there, out = put(dev, x), dev.empty(x.shape)
    dev.map(Formula("where(x > 0, log1p(x), k * (exp(x) - 1))", ("x",), constants=("k",)), k=0.5)(there, out)
    compare("map", dev.download(out), np.where(x > 0, np.log1p(np.abs(x)), 0.5 * np.expm1(x)), NEAR)
    context = dev.make_context()
    context.set_clock(3, 0)
    mask, op = dev.empty(x.shape, np.uint8), dev.dropout(*x.shape, 0.25, 7, context)
    op.forward(there, mask, out)
    kept = dev.download(mask) != 0
    compare("dropout's share", np.array([kept.mean()]), np.array([0.75]), 0.02)
    compare("dropout", dev.download(out), np.where(kept, x / 0.75, 0), NEAR)
    op.backward(mask, there, out)
    compare("dropout's gradient", dev.download(out), np.where(kept, x / 0.75, 0), NEAR)
    return ""


def sums(bench: Bench) -> str:
    """kernels: sums and batch norm"""
    dev, square = bench.device(), Formula("x * x", ("x",))
    for n, c, p in ((8, 20, 576), (4000, 70, 1)):
        x = (3 + rng().normal(size=(n, c, p))).astype(np.float32)
        there, exact, out, one = put(dev, x), x.astype(np.float64), dev.empty(c), dev.empty(1)
        dev.sum(square)(there, one)
        compare("sum", dev.download(one), np.array([(exact**2).sum()]), NEAR)
        dev.channel_sum(square, (), n, c, p)(there, out)
        compare("channel sums", dev.download(out), (exact**2).sum((0, 2)), NEAR)
        mean, scale, means, variances, count = dev.empty(c), dev.empty(c), dev.zeros(c), dev.zeros(c), dev.zeros(1)
        dev.batch_moments(n, c, p, 1e-3, 0.9)(there, mean, scale, means, variances, count)
        compare("means", dev.download(mean), exact.mean((0, 2)), NEAR)
        compare("1 / deviations", dev.download(scale), 1 / np.sqrt(exact.var((0, 2)) + 1e-3), NEAR)
        shifted, y = Formula("x - m", ("x", "m")), dev.empty(x.shape)
        dev.channel_map(shifted, ("m",), n, c, p)(there, mean, y)
        compare("channel map", dev.download(y), exact - exact.mean((0, 2))[:, None], NEAR)
    return ""


def softmax(bench: Bench) -> str:
    """kernels: softmax, loss and accuracy"""
    dev, draw = bench.device(), rng()
    for n, c, p in ((64, 10, 1), (3, 7, 50)):
        x, label = draw.normal(size=(n, c, p)), draw.integers(0, c, (n, p))
        there, labels, prob, loss, score, dx = (
            put(dev, x),
            put(dev, label),
            dev.empty(x.shape),
            dev.empty(1),
            dev.empty(1),
            dev.empty(x.shape),
        )
        expected = np.exp(x - x.max(1, keepdims=True))
        expected /= expected.sum(1, keepdims=True)
        chosen = np.take_along_axis(expected, label[:, None], 1)[:, 0]
        op = dev.softmax_loss(n, c, p, None, None)
        op.forward(there, labels, prob, loss)
        compare("softmax", dev.download(prob), expected, NEAR)
        compare("loss", dev.download(loss), np.array([-np.log(chosen).mean()]), NEAR)
        op.backward(prob, labels, put(dev, [1.0]), dx)
        compare(
            "its gradient", dev.download(dx), (expected - (np.arange(c)[:, None] == label[:, None])) / (n * p), NEAR
        )
        dev.accuracy(n, c, p, 1, None).forward(there, labels, score, None)
        compare("accuracy", dev.download(score), np.array([(x.argmax(1) == label).mean()]), NEAR)
    return ""


def windows(bench: Bench) -> str:
    """kernels: pooling and LRN"""
    dev, x = bench.device(), rng().normal(size=(4, 6, 12, 12)).astype(np.float32)
    tiles = x.reshape(4, 6, 6, 2, 6, 2).astype(np.float64)
    there, window = put(dev, x), Window((2, 2), (2, 2))
    for method, expected in (("MAX", tiles.max((3, 5))), ("AVE", tiles.mean((3, 5)))):
        y, dx = dev.empty(expected.shape), dev.empty(x.shape)
        op, index = dev.pooling(method, x.shape, expected.shape, window), dev.empty(expected.shape, np.int32)
        op.forward(there, y, index)
        compare(f"{method} pooling", dev.download(y), expected, NEAR)
        op.backward(y, index, dx)
        wide = expected.repeat(2, 2).repeat(2, 3)
        compare(
            f"{method} pooling's gradient",
            dev.download(dx),
            np.where(x == wide, x, 0) if method == "MAX" else wide / 4,
            NEAR,
        )
    size, alpha, beta = 3, 0.5, 0.75
    padded = np.pad(x.astype(np.float64) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    scale = 1 + alpha / size * sum(padded[:, i : i + 6] for i in range(size))
    kept, y = dev.empty(x.shape), dev.empty(x.shape)
    dev.lrn(4, 6, 144, size, alpha, beta, 1.0).forward(there, kept, y)
    compare("LRN", dev.download(y), x * scale**-beta, NEAR)
    return ""


def selection(bench: Bench) -> str:
    """kernels: embedding and largest scores"""
    dev, draw = bench.device(), rng()
    table, index, dout = draw.normal(size=(50, 40)), draw.integers(0, 50, 300), draw.normal(size=(300, 40))
    op, out, dtable = dev.take(50, 40, 300), dev.empty(dout.shape), dev.zeros(table.shape)
    op.forward(put(dev, table), put(dev, index), out)
    compare("rows of a table", dev.download(out), table[index], NEAR)
    op.backward(put(dev, index), put(dev, dout), dtable)
    expected = np.zeros(table.shape)
    np.add.at(expected, index, dout)
    compare("their gradient", dev.download(dtable), expected, NEAR)
    x, values, places = draw.permutation(30 * 90).reshape(30, 90, 1), dev.empty((30, 5, 1)), dev.empty((30, 5, 1))
    dev.top_k(30, 90, 1, 5).forward(put(dev, x), values, places)
    compare("largest scores", dev.download(places), (-x).argsort(1)[:, :5], 0)
    return ""


def copies(bench: Bench) -> str:
    """kernels: layouts, slices and preprocessing"""
    dev, draw = bench.device(), rng()
    for shape in ((2, 3, 200), (3, 70, 45)):
        x = draw.normal(size=shape).astype(np.float32)
        out = dev.empty((shape[0], shape[2], shape[1]))
        dev.transpose(put(dev, x), out)
        compare("another layout", dev.download(out), x.swapaxes(1, 2), 0)
    part, whole = draw.normal(size=(9, 20)).astype(np.float32), dev.zeros((9, 50))
    dev.copy_into(put(dev, part), whole, 25)
    compare("a slice", dev.download(whole)[:, 25:45], part, 0)
    pixels, mean = (
        draw.integers(0, 256, (6, 3, 10, 9)).astype(np.uint8),
        np.array([90, 100, 110], np.float32).reshape(3, 1, 1),
    )
    picks = np.array([[4, 1, 2, 0], [0, 0, 0, 1], [5, 2, 1, 1]], np.int32)
    context = dev.make_context()
    op, out = dev.preprocess((3, 3, 8, 7), mean, 0.5, context), dev.empty((3, 3, 8, 7))
    context.input_buffer.begin()
    op.set_batch(0, pixels, picks, True)
    context.input_buffer.send()
    op.forward(out)
    crops = [
        pixels[i, :, top : top + 8, left : left + 7][..., :: -1 if mirror else 1] for i, top, left, mirror in picks
    ]
    compare("crop, mean, scale and mirror", dev.download(out), (np.stack(crops) - mean) * 0.5, 0)
    return ""


def recurrent(bench: Bench) -> str:
    """kernels: LSTM"""
    dev, draw, (t, n, d) = bench.device("fp32"), rng(), (4, 6, 32)
    gates, w, state = draw.normal(size=(t, n, 4 * d)), draw.normal(size=(4 * d, d)) / 6, np.zeros((n, d))
    cell, outs = np.zeros((n, d)), []
    for step in gates:
        total = step + state @ w.T
        i, f, o = (1 / (1 + np.exp(-total[:, k * d : (k + 1) * d])) for k in range(3))
        cell = f * cell + i * np.tanh(total[:, 3 * d :])
        state = o * np.tanh(cell)
        outs.append(state)
    hidden, h, c = dev.empty((t, n, d)), dev.empty((t, n, d)), dev.zeros((t + 1, n, d))
    dev.lstm(t, n, d).forward(put(dev, gates), put(dev, np.ones((t, n))), put(dev, w), dev.zeros((n, d)), hidden, c, h)
    compare("h", dev.download(h), np.stack(outs), NEAR)
    return ""


def update(bench: Bench) -> str:
    """kernels: update and loss scale"""
    dev, draw, n = bench.device(), rng(), 10_001
    w, g, h = (draw.normal(size=n).astype(np.float32) for _ in range(3))
    rule = Formula(
        "g = g + decay * w; h = momentum * h + rate * g; w = w - h",
        ("w", "g", "h"),
        constants=("rate", "decay", "momentum"),
    )
    there = [put(dev, v) for v in (w, g, h)]
    chunks = np.array([[0, 4096], [4096, n]])
    dev.updater(rule, chunks, np.array([1.0, 2.0]), np.array([0.1, 0.0]), momentum=0.9)(
        put(dev, [0.01]), put(dev, [0.5]), *there
    )
    first = np.arange(n) < 4096
    moved = 0.9 * h + np.where(first, 0.01, 0.02) * (0.5 * g + np.where(first, 0.1, 0.0) * w)
    compare("SGD's weights", dev.download(there[0]), w - moved, NEAR)
    compare("SGD's history", dev.download(there[2]), moved, NEAR)
    if bench.number is not None:
        half = bench.device("fp16")
        scale = half.loss_scale(1024.0)
        for gradient, factor in ((1.0, 1024), (np.inf, 512)):
            scale.check(put(half, np.full(3000, gradient)))
            if scale.held()[0] != factor:
                raise AssertionError(f"the loss scale is {scale.held()[0]:g}, expected {factor}")
    return ""


CHECKS = elementwise, sums, softmax, windows, selection, copies, recurrent, update
