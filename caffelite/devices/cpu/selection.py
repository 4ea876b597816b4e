"""The CPU's operations that select rows of a table or the largest values."""

import numpy as np

from .. import ops
from .kernels import selection
from .memory import Memory
from .registry import implements


@implements(ops.Take)
class Take:
    def __init__(self, device: Memory, op: ops.Take):
        self._table, self._out = (op.rows, op.width), (op.count, op.width)
        self.bad = np.zeros(1, np.int64)

    def forward(self, table, indices, out) -> None:
        selection.take_forward(table.reshape(self._table), indices.reshape(-1), out.reshape(self._out), self.bad)

    def backward(self, indices, dout, dtable, add: bool = False) -> None:
        selection.take_backward(indices.reshape(-1), dout.reshape(self._out), dtable.reshape(self._table), add)


@implements(ops.TopK)
class TopK:
    def __init__(self, device: Memory, op: ops.TopK):
        self._x, self._y = (op.n, op.c, op.p), (op.n, op.k, op.p)

    def forward(self, x, values, indices) -> None:
        selection.top_k(x.reshape(self._x), values.reshape(self._y), indices.reshape(self._y))


@implements(ops.Distances)
class Distances:
    def __init__(self, device: Memory, op: ops.Distances):
        self._x, self._w, self._y, self._squared = (op.m, op.k), (op.n, op.k), (op.m, op.n), op.squared

    def forward(self, x, w, y) -> None:
        selection.distances(x.reshape(self._x), w.reshape(self._w), y.reshape(self._y), self._squared)

    def backward_x(self, x, w, dy, dx) -> None:
        selection.distances_backward(
            x.reshape(self._x), w.reshape(self._w), dy.reshape(self._y), dx.reshape(self._x), self._squared, False
        )

    def backward_w(self, x, w, dy, dw, add: bool = False) -> None:
        selection.distances_backward(
            w.reshape(self._w), x.reshape(self._x), dy.reshape(self._y).T, dw.reshape(self._w), self._squared, add
        )
