"""The GPU's operations by our own kernels."""

import functools
import math

import numpy as np

from .. import ops
from ..formula import Formula
from .formula_kernels import FormulaKernels
from .registry import implements


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
