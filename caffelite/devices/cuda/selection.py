"""The GPU's operations that select rows of a table or the largest values."""

from .. import ops
from .formula_kernels import FormulaKernels
from .operations import Labels, team
from .registry import implements


@implements(ops.Take)
class Take(Labels):
    def __init__(self, device: FormulaKernels, op: ops.Take):
        super().__init__(device)
        rows, width, count = op.rows, op.width, op.count
        self._forward = device.kernel("selection", "take_forward", count * width, rows, width, count)
        self._backward = device.kernel("selection", "take_backward", rows * 256, rows, width, count)

    def forward(self, table, indices, out) -> None:
        self._forward(table, indices, out, self._first, self._come, self.bad)

    def backward(self, indices, dout, dtable, add: bool = False) -> None:
        self._backward(indices, dout, dtable, add)


@implements(ops.TopK)
class TopK:
    def __init__(self, device: FormulaKernels, op: ops.TopK):
        threads, shape = op.n * op.p * team(op.p), (team(op.p), op.n, op.c, op.p)
        self._forward = device.kernel("selection", "top_k", threads, op.k, *shape)

    def forward(self, x, values, indices) -> None:
        self._forward(x, values, indices)


@implements(ops.Distances)
class Distances:
    def __init__(self, device: FormulaKernels, op: ops.Distances):
        m, n, k, squared = op.m, op.n, op.k, op.squared
        self._forward = device.kernel("selection", "distances", m * n, squared, m, n, k)
        backward = "selection", "distances_backward"
        self._x = device.kernel(*backward, m * k, squared, n, 1, m, n, k)
        self._w = device.kernel(*backward, n * k, squared, 1, n, n, m, k)

    def forward(self, x, w, y) -> None:
        self._forward(x, w, y)

    def backward_x(self, x, w, dy, dx) -> None:
        self._x(x, w, dy, dx, False)

    def backward_w(self, x, w, dy, dw, add: bool = False) -> None:
        self._w(w, x, dy, dw, add)
