"""Convolutions over three spatial axes or more, in chunks where they would take much memory."""

import numpy as np
import pytest
from textnet import bind, layer, wired

from caffelite.devices import Window
from caffelite.devices.cpu import CPU
from caffelite.layers.base import sliding

X, WINDOW = (2, 4, 7, 5, 6), Window((3, 2, 3), (1, 2, 1), (1, 0, 1), (2, 1, 1))
Y = (2, 6, 5, 2, 6)


def passes(groups):
    rng = np.random.default_rng(5)
    x, dy = rng.normal(size=X), rng.normal(size=Y)
    w, b = rng.normal(size=(6, 4 // groups, 3, 2, 3)), rng.normal(size=6)
    y, dx, dw, db = np.empty(Y), np.empty(X), np.ones_like(w), np.ones(6)
    op = sliding.convolution(CPU("float64"), X, Y, WINDOW, groups)
    op.forward(x, w, b, y)
    op.backward(x, w, dy, dx, dw, db, add_w=True, add_b=True)
    columns, back = np.empty((2, 4, 3, 2 * 3, *Y[2:])), np.empty(X)
    unfolded = sliding.im2col(CPU("float64"), X, Y[2:], WINDOW)
    unfolded.forward(x, columns)
    unfolded.backward(columns, back)
    return len(op.chunks), [y, dx, dw, db, columns, back]


@pytest.mark.parametrize("groups", [1, 2])
def test_chunks_compute_what_the_whole_does(monkeypatch, groups):
    count, whole = passes(groups)
    monkeypatch.setattr(sliding.Volumes, "LIMIT", 1)
    chunks, divided = passes(groups)
    assert (count, chunks) == (1, 5)
    for actual, expected in zip(divided, whole, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_files_of_opencl_caffe():
    text = wired("MemoryData", "", "x", "dim: 1 dim: 2 dim: 4 dim: 6 dim: 6")
    text += layer("Pooling", "x", body="kernel_size: 1 kernel_size: 2 kernel_size: 3 pad: 0")
    net = bind(text, keep=True)
    assert net.blobs["x"].shape == (1, 2, 4, 6, 6) and net.blobs["y"].shape == (1, 2, 4, 5, 4)
