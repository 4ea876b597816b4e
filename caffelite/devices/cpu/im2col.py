"""The columns of sliding windows, and their gradient, on the CPU."""

import math

from .. import ops
from .kernels import unfolding
from .memory import Memory
from .registry import implements


@implements(ops.Im2col)
class Im2col:
    def __init__(self, device: Memory, op: ops.Im2col):
        planes, size, self._window = math.prod(op.x[:2]), op.x[2:], op.window
        self._x, self._columns = (planes, *size), (planes, *op.window.kernel, *op.window.outputs(size))

    def forward(self, x, columns) -> None:
        unfolding.im2col(x.reshape(self._x), columns.reshape(self._columns), *self._window)

    def backward(self, dcolumns, dx) -> None:
        unfolding.col2im(dcolumns.reshape(self._columns), dx.reshape(self._x), *self._window)
