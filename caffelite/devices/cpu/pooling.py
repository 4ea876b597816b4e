"""Pooling of images on the CPU."""

import numpy as np

from .. import ops
from . import onednn_operations
from .formula_kernels import FormulaKernels
from .kernels import pooling
from .registry import implements


class Pooling:
    def __init__(self, op: ops.Pooling):
        self._method, self._key, self._sizes = op.method, op.layer_key & 0xFFFFFFFF, op.x[:2]
        self._inputs = op.context.input_buffer if op.context else None
        planes = op.x[0] * op.x[1]
        self._x, self._y = (planes, *op.x[2:]), (planes, *op.y[2:])
        self._window = op.window.kernel, op.window.stride, op.window.pad

    def forward(self, x, y, indices) -> None:
        x, y = x.reshape(self._x), y.reshape(self._y)
        if self._method == "MAX":
            pooling.max_pool_forward(x, y, indices.reshape(self._y), *self._window)
        elif self._method == "AVE":
            pooling.average_pool_forward(x, y, *self._window)
        elif self._inputs is None:
            pooling.expected_pool_forward(x, y, *self._window, x.dtype.type(np.finfo(np.float32).tiny))
        else:
            low, high, iteration, sample = self._inputs.random_key(self._sizes[0])
            args = np.uint64(low), np.uint64(high), self._key, iteration, sample
            pooling.stochastic_pool_forward(x, y, indices.reshape(self._y), self._sizes[1], *self._window, *args)

    def backward(self, dy, indices, dx) -> None:
        dy, dx = dy.reshape(self._y), dx.reshape(self._x)
        if self._method == "AVE":
            pooling.average_pool_backward(dy, dx, *self._window)
        else:
            pooling.max_pool_backward(dy, indices.reshape(self._y), dx)


@implements(ops.Pooling)
def build(device: FormulaKernels, op: ops.Pooling) -> ops.BuiltPooling:
    if not op.channels_last:
        return Pooling(op)
    assert device.library, "traits say that there is no channels_last"
    return onednn_operations.Pooling(device, device.library, op)
