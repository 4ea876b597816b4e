"""The CPU's operations by kernels of our own and BLAS."""

import math

import numpy as np

from .. import algorithms, ops
from . import blas
from .kernels import accuracy, convolution, dense, dropout, softmax
from .memory import Memory
from .registry import implements


class InnerProduct:
    """All products are of the device's dtype."""

    def __init__(self, device: Memory, op: ops.InnerProduct):
        self.m, self.k, self.n, self.transpose = op.m, op.k, op.n, op.transpose
        self._device, self._fn = device, blas.address(device.dtype.name)
        self._none = np.empty(0, device.dtype)

    def _gemm(self, trans_a, trans_b, m, n, k, a, b, c, add=False):
        lda, ldb = a.shape[1], b.shape[1]
        dense.panel_gemm(
            self._fn,
            trans_a,
            trans_b,
            m,
            n,
            k,
            a.ctypes.data,
            lda,
            b.ctypes.data,
            ldb,
            self._device.dtype.type(add),
            c.ctypes.data,
            n,
            self._device.threads,
            m >= n,
            self._device.dtype.itemsize,
        )

    def forward(self, x, w, b, y, slope: float | None = None, rounded_x=None) -> None:
        x, y = x.reshape(self.m, self.k), y.reshape(self.m, self.n)
        w = w.reshape((self.k, self.n) if self.transpose else (self.n, self.k))
        self._gemm(False, not self.transpose, self.m, self.n, self.k, x, w, y)
        if b is not None or slope is not None:
            dense.row_bias(
                y,
                self._none if b is None else b.reshape(-1),
                b is not None,
                y.dtype.type(slope or 0),
                slope is not None,
            )

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        x, dy = x.reshape(self.m, self.k), dy.reshape(self.m, self.n)
        w = w.reshape((self.k, self.n) if self.transpose else (self.n, self.k))
        if dw is not None:
            if self.transpose:
                self._gemm(True, False, self.k, self.n, self.m, x, dy, dw.reshape(self.k, self.n), add_w)
            else:
                self._gemm(True, False, self.n, self.k, self.m, dy, x, dw.reshape(self.n, self.k), add_w)
        if db is not None:
            dense.column_sums(dy, db.reshape(-1), add_b)
        if dx is not None:
            self._gemm(False, self.transpose, self.m, self.k, self.n, dy, w, dx.reshape(self.m, self.k))


class Convolution:
    """A matrix product a tile of rows (see kernels)."""

    def __init__(self, device: Memory, op: ops.Convolution):
        self._device, self._fn = device, blas.address(device.dtype.name)
        self._x, self._y = x, y = op.x, op.y
        self._weights = y[1] * x[1] // op.groups * math.prod(op.window.kernel)
        tile = algorithms.column_tile(x[1] // op.groups, y[2:], op.window, device.dtype.itemsize)
        self._held, self._geometry = tile.size, (tile.rows, tile.depth, *op.window, op.groups)
        self._none = np.empty(0, device.dtype)

    def _space(self, weights: int) -> tuple[np.ndarray, np.ndarray]:
        """Workspace: each thread's rows and columns, and each thread's weight gradient."""
        threads = self._device.threads
        space = self._device.workspace(threads * (self._held + weights))
        return space[: threads * self._held].reshape(threads, -1), space[threads * self._held :].reshape(threads, -1)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        space, _ = self._space(0)
        bias = self._none if b is None else b.reshape(-1)
        args = bias, b is not None, y.dtype.type(slope or 0), slope is not None, y.reshape(self._y), space
        convolution.convolution_forward(self._fn, x.reshape(self._x), w.reshape(-1), *args, *self._geometry)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        dy = dy.reshape(self._y)
        if dx is not None or dw is not None:
            space, chunks = self._space(0 if dw is None else self._weights)
            target = (x if dx is None else dx).reshape(self._x)
            args = dy, target, dx is not None, chunks, dw is not None, space
            convolution.convolution_backward(self._fn, x.reshape(self._x), w.reshape(-1), *args, *self._geometry)
        if dw is not None:
            convolution.add_chunks(chunks, dw.reshape(-1), add_w)
        if db is not None:
            dense.channel_sums(dy.reshape(dy.shape[0], dy.shape[1], -1), db.reshape(-1), add_b)


@implements(ops.Softmax)
class Softmax:
    def __init__(self, device: Memory, op: ops.Softmax):
        self._shape = (op.n, op.c, op.p)

    def forward(self, x, y) -> None:
        softmax.softmax_forward(x.reshape(self._shape), y.reshape(self._shape))

    def backward(self, y, dy, dx) -> None:
        softmax.softmax_backward(y.reshape(self._shape), dy.reshape(self._shape), dx.reshape(self._shape))


@implements(ops.SoftmaxLoss)
class SoftmaxLoss:
    def __init__(self, device: Memory, op: ops.SoftmaxLoss):
        self._shape, self._labels = (op.n, op.c, op.p), (op.n, op.p)
        self._weights = np.ones(op.c, device.dtype) if op.weights is None else op.weights
        self._ignore = (device.dtype.type(op.ignore or 0), op.ignore is not None)
        self._fixed = -1.0 if op.divisor is None else float(op.divisor)
        self.divisor, self.bad = device.zeros(1), device.zeros(1, np.int64)
        self._tiny, self._weight, self._unused = np.finfo(np.float32).tiny, device.zeros(1), device.zeros(1)

    def forward(self, x, label, prob, loss, total=None, weight: float = 1.0, gradient=None) -> None:
        arguments = x.reshape(self._shape), prob.reshape(self._shape), label.reshape(self._labels)
        self._weight[0] = weight
        totals = (self._unused if total is None else total), self._weight[0]
        args = (*self._ignore, self._fixed, self._tiny, loss.reshape(-1), self.divisor, self.bad, *totals)
        softmax.softmax_loss_forward(*arguments, self._weights, *args)
        if gradient is not None:
            self.backward(prob, label, self._weight, gradient)

    def backward(self, prob, label, dloss, dx) -> None:
        label, dx = label.reshape(self._labels), dx.reshape(self._shape)
        args = label, self._weights, *self._ignore, dloss.reshape(-1), self.divisor, dx
        softmax.softmax_loss_backward(prob.reshape(self._shape), *args)


@implements(ops.Accuracy)
class Accuracy:
    def __init__(self, device: Memory, op: ops.Accuracy):
        self._shape, self._labels, self._top_k = (op.n, op.c, op.p), (op.n, op.p), op.top_k
        self._ignore = (float(op.ignore or 0), op.ignore is not None)
        self.counts, self.bad = np.zeros(op.c, np.int64), np.zeros(1, np.int64)

    def forward(self, x, label, score, per_class) -> None:
        shares = np.empty(0, x.dtype) if per_class is None else per_class.reshape(-1)
        args = (
            label.reshape(self._labels),
            self._top_k,
            *self._ignore,
            score.reshape(-1),
            shares,
            self.counts,
            self.bad,
        )
        accuracy.accuracy(x.reshape(self._shape), *args)


@implements(ops.Dropout)
class Dropout:
    def __init__(self, device: Memory, op: ops.Dropout):
        self._device, self._inputs, self._shape = device, op.context.input_buffer, (op.n, op.d)
        self._piece, self._channels, self._key = op.piece or ops.MaskPiece(0, op.n, 0), op.channels, op.layer_key
        self._threshold = np.uint64(min(int(op.ratio * 2**32), 2**32 - 1))
        self._scale = device.dtype.type(1 / (1 - op.ratio) if op.scale is None else op.scale)

    def forward(self, x, mask, y) -> None:
        low, high, iteration, sample = self._inputs.random_key(self._piece.rows)
        x, mask, y = x.reshape(self._shape), mask.reshape(self._shape), y.reshape(self._shape)
        drawn = self._device.workspace(mask.size, np.uint8).reshape(self._shape) if self._channels else mask
        key = np.uint64(low), np.uint64(high), self._key, iteration, sample + self._piece.first_row
        how = self._channels, self._threshold, self._scale, *key, self._piece.first_column
        dropout.dropout_forward(x, drawn, mask, y, *how)

    def backward(self, mask, dy, dx) -> None:
        dropout.dropout_backward(mask.reshape(-1), dy.reshape(-1), dx.reshape(-1), self._scale)


@implements(ops.Uniform)
class Uniform:
    def __init__(self, device: Memory, op: ops.Uniform):
        self._inputs, self._shape, self._key = op.context.input_buffer, (op.n, op.d), op.layer_key
        self._range = op.low, op.high - op.low

    def forward(self, out) -> None:
        low, high, iteration, sample = self._inputs.random_key(self._shape[0])
        key = np.uint64(low), np.uint64(high), self._key, iteration, sample
        dropout.uniform(out.reshape(self._shape), *self._range, *key)
