"""The CPU's operations that select rows of a table or the largest values."""

from __future__ import annotations

import numpy as np

from .kernels import selection


class Take:
    """out[i] = table[index[i]]: table (rows, width), index (count) in the device's type, out (count, width).

    ``bad`` as in SoftmaxLoss: 1 + the place of the first index that names no row; such a row of out is 0, and gives no
    gradient.
    """

    def __init__(self, rows: int, width: int, count: int):
        self._table, self._out = (rows, width), (count, width)
        self.bad = np.zeros(1, np.int64)

    def forward(self, table, index, out) -> None:
        selection.take_forward(table.reshape(self._table), index.reshape(-1), out.reshape(self._out), self.bad)

    def backward(self, index, dout, dtable, add: bool = False) -> None:
        """dtable: [its previous content plus] the sums of the rows of dout, in their order."""
        selection.take_backward(index.reshape(-1), dout.reshape(self._out), dtable.reshape(self._table), add)


class TopK:
    """The k largest over the middle axis of x (N, C, P), largest first, the first of equals, NaN last: values and
    places (N, k, P).

    places: their numbers along the axis, in the device's type.
    """

    def __init__(self, n: int, c: int, p: int, k: int):
        self._x, self._y = (n, c, p), (n, k, p)

    def forward(self, x, values, places) -> None:
        selection.top_k(x.reshape(self._x), values.reshape(self._y), places.reshape(self._y))


class Distances:
    """y (M, N): the distance of each row of x (M, K) to each row of w (N, K): Σ (x - w)², or Σ |x - w|."""

    def __init__(self, m: int, n: int, k: int, squared: bool):
        self._x, self._w, self._y, self._squared = (m, k), (n, k), (m, n), squared

    def forward(self, x, w, y) -> None:
        selection.distances(x.reshape(self._x), w.reshape(self._w), y.reshape(self._y), self._squared)

    def backward_x(self, x, w, dy, dx) -> None:
        selection.distances_backward(
            x.reshape(self._x), w.reshape(self._w), dy.reshape(self._y), dx.reshape(self._x), self._squared, False
        )

    def backward_w(self, x, w, dy, dw, add: bool = False) -> None:
        """add: add to dw instead of overwriting it."""
        selection.distances_backward(
            w.reshape(self._w), x.reshape(self._x), dy.reshape(self._y).T, dw.reshape(self._w), self._squared, add
        )
