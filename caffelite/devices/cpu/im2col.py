"""The columns of sliding windows, and their gradient, on the CPU."""

from __future__ import annotations

import math

from ..window import Window
from .kernels import unfolding


class Im2col:
    """x (N, C, H, W) → columns (N, C·kh·kw, OH, OW): the inputs of each window, 0 outside the image."""

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...], window: Window):
        planes = math.prod(x[:2])
        self._x, self._columns, self._window = (planes, *x[2:]), (planes, *window.kernel, *y), window

    def forward(self, x, columns) -> None:
        unfolding.im2col(x.reshape(self._x), columns.reshape(self._columns), *self._window)

    def backward(self, dcolumns, dx) -> None:
        unfolding.col2im(dcolumns.reshape(self._columns), dx.reshape(self._x), *self._window)
