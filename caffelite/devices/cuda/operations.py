"""The GPU's operations by our own kernels and cuBLAS."""

import functools
import math

import numpy as np

from .. import ops
from ..formula import Formula
from .formula_kernels import FormulaKernels
from .registry import implements

FEW_WORK = 1 << 20  # multiply-adds of a product that takes less time than launches of bias and ReLU


class Biased:
    """The bias and leaky ReLU of y (N, C, P), and the bias's gradient."""

    def __init__(self, device: FormulaKernels, n: int, c: int, p: int):
        self._sum = device.channel_sum(Formula("dy", ("dy",)), (), n, c, p)

        @functools.cache
        def applied(biased: bool, slope: float | None):
            text, channels = ("y + b", ("b",)) if biased else ("y", ())
            constants = {} if slope is None else {"slope": slope}
            rectified = text if slope is None else f"where({text} > 0, {text}, slope * ({text}))"
            formula = Formula(rectified, ("y", *channels), constants=tuple(constants))
            return device.channel_map(formula, channels, n, c, p, **constants)

        self._applied = applied

    def forward(self, y, b, slope: float | None) -> None:
        if b is not None or slope is not None:
            self._applied(b is not None, slope)(y, *([] if b is None else [b]), y)

    def backward(self, dy, db, add: bool) -> None:
        self._sum(dy, db, add=add)


class InnerProduct:
    def __init__(self, device: FormulaKernels, op: ops.InnerProduct):
        m, n, k = self._sizes = op.m, op.n, op.k
        self._transpose, self._half = op.transpose, op.half
        self._device, self._matmul, self._bias = device, device.backend.matmul, Biased(device, m, n, 1)
        self._round, _ = device.conversions()
        few = not op.half and not op.transpose and m * n * k <= FEW_WORK
        self._few = device.kernel("reductions", "product_few", 32 * m * n, m, n, k) if few else None

    def _rounded(self, *arrays) -> list:
        """Arrays in the workspace, of 16-bit numbers; None stays."""
        kind, at, views = self._device.half_dtype, 0, []
        space = self._device.workspace(sum(a.size + 128 for a in arrays if a is not None), kind)
        for array in arrays:
            views.append(None if array is None else space[at : at + array.size].reshape(array.shape))
            if array is not None:
                self._round(array, views[-1])
                at += -(-array.size // 128) * 128
        return views

    def forward(self, x, w, b, y, slope: float | None = None, rounded_x=None) -> None:
        if self._half:
            self._round(x, rounded_x)
            x, (w,) = rounded_x, self._rounded(w)
        if self._few:
            return self._few(x, w, b, y, float(slope or 0), slope is not None)
        self._matmul(x, w, y, *self._sizes, trans_b=not self._transpose)
        self._bias.forward(y, b, slope)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        m, n, k = self._sizes
        if self._half:
            rounded, w = self._rounded(dy, w if dx is not None else None)
        else:
            rounded = dy

        def weights() -> None:
            if self._transpose:
                self._matmul(x, rounded, dw, k, n, m, trans_a=True, add=add_w)
            else:
                self._matmul(rounded, x, dw, n, k, m, trans_a=True, add=add_w)

        def biases() -> None:
            self._bias.backward(dy, db, add_b)

        def bottom() -> None:
            self._matmul(rounded, w, dx, m, k, n, trans_b=self._transpose)

        passes = ((weights, dw), (biases, db), (bottom, dx))
        self._device.run_concurrently(m * n * k, *(one for one, wanted in passes if wanted is not None))


def team(p: int) -> int:
    """Threads that share one reduction: a warp where its elements are neighbors."""
    return 32 if p == 1 else 1


@implements(ops.Softmax)
class Softmax:
    def __init__(self, device: FormulaKernels, op: ops.Softmax):
        threads, shape = op.n * op.p * team(op.p), (team(op.p), op.n, op.c, op.p)
        self._forward = device.kernel("reductions", "softmax_forward", threads, *shape)
        self._backward = device.kernel("reductions", "softmax_backward", threads, *shape)

    def forward(self, x, y) -> None:
        self._forward(x, y)

    def backward(self, y, dy, dx) -> None:
        self._backward(y, dy, dx)


class Labels:
    """Reports labels, and other numbers that name something, that are out of range. ``bad`` (int64, one element): 0, or
    1 + the index of the first."""

    def __init__(self, device: FormulaKernels, ignore: int | None = None):
        self.bad, self._first = device.zeros(1, np.int64), device.uploaded(np.array([np.iinfo(np.int64).max]))
        self._come = device.zeros(1, np.uint32)  # counts the blocks of a kernel that are done
        self._ignore = (float(ignore or 0), ignore is not None)


@implements(ops.SoftmaxLoss)
class SoftmaxLoss(Labels):
    BLOCKS = 1024  # most blocks

    def __init__(self, device: FormulaKernels, op: ops.SoftmaxLoss):
        super().__init__(device, op.ignore)
        self._weights, n, c, p = op.weights, op.n, op.c, op.p
        threads = min(n * p * team(p), self.BLOCKS * 256)
        self.divisor = device.zeros(1)
        self._partial = device.empty(2 * self.BLOCKS, np.float64), self._come, self._first
        numbers = np.float64(-1 if op.divisor is None else op.divisor), float(np.finfo(np.float32).tiny)
        tail = *self._ignore, *numbers, team(p), n, c, p
        self._forward = device.kernel("reductions", "softmax_loss", threads, *tail)
        self._backward = device.kernel("reductions", "softmax_loss_backward", n * c * p, *self._ignore, n, c, p)

    def forward(self, x, label, prob, loss, total=None, weight: float = 1.0, gradient=None) -> None:
        outputs = prob, gradient, loss, total
        self._forward(x, label, self._weights, *outputs, float(weight), self.divisor, self.bad, *self._partial)

    def backward(self, prob, label, dloss, dx) -> None:
        self._backward(prob, label, self._weights, dloss, self.divisor, dx)


@implements(ops.Accuracy)
class Accuracy(Labels):
    def __init__(self, device: FormulaKernels, op: ops.Accuracy):
        super().__init__(device, op.ignore)
        n, c, p = op.n, op.c, op.p
        self._counts, self.counts = (device.zeros(size, np.uint32) for size in (2 * c, c))
        tail = (op.top_k, *self._ignore, team(p), n, c, p)
        self._score = device.kernel("reductions", "accuracy", n * p * team(p), *tail)

    def forward(self, x, label, score, per_class) -> None:
        self._score(x, label, score, per_class, self._counts, self.counts, self._come, self._first, self.bad)


@implements(ops.Dropout)
class Dropout:
    def __init__(self, device: FormulaKernels, op: ops.Dropout):
        n, d, piece = op.n, op.d, op.piece or ops.MaskPiece(0, op.n, 0)
        self._inputs, self._n = op.context.input_buffer, piece.rows
        scale = float(1 / (1 - op.ratio) if op.scale is None else op.scale)
        words = (np.uint32(op.layer_key & 0xFFFFFFFF), np.uint32(min(int(op.ratio * 2**32), 2**32 - 1)))
        tail = *words, scale, n, d, piece.first_row, piece.first_column, max(1, op.channels)
        threads = n * math.ceil((piece.first_column % 4 + d) / 4)
        self._forward = device.kernel("elementwise", "dropout_forward", threads, *tail)
        self._backward = device.kernel("elementwise", "dropout_backward", n * d, scale, n * d)

    def forward(self, x, mask, y) -> None:
        self._forward(x, mask, y, *self._inputs.random_key(self._n))

    def backward(self, mask, dy, dx) -> None:
        self._backward(mask, dy, dx)


@implements(ops.Uniform)
class Uniform:
    def __init__(self, device: FormulaKernels, op: ops.Uniform):
        self._inputs, self._n = op.context.input_buffer, op.n
        tail = np.uint32(op.layer_key & 0xFFFFFFFF), np.float64(op.low), np.float64(op.high - op.low), op.n, op.d
        self._forward = device.kernel("elementwise", "uniform", op.n * math.ceil(op.d / 4), *tail)

    def forward(self, out) -> None:
        self._forward(out, *self._inputs.random_key(self._n))
