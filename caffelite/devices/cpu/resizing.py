"""The CPU's operations that change the size of images: bilinear interpolation and unpooling."""

import math

import numpy as np

from .. import ops
from ..resizing import aligned_axes
from .kernels import resizing
from .memory import Memory
from .registry import implements


@implements(ops.Interpolation)
class Interpolation:
    def __init__(self, device: Memory, op: ops.Interpolation):
        self._x, self._y = ((math.prod(shape[:2]), *shape[2:]) for shape in (op.x, op.y))
        self._axes = tuple(
            part
            for axis in aligned_axes(op.x, op.y, op.start, op.size)
            for part in (axis.low, axis.high, axis.share.astype(device.dtype))
        )

    def forward(self, x, y) -> None:
        resizing.interpolate(x.reshape(self._x), *self._axes, y.reshape(self._y))

    def backward(self, dy, dx) -> None:
        resizing.interpolate_backward(dy.reshape(self._y), *self._axes, dx.reshape(self._x))


@implements(ops.Unpooling)
class Unpooling:
    def __init__(self, device: Memory, op: ops.Unpooling):
        self._x, self._y = (op.planes, op.p), (op.planes, op.q)
        self.bad, self._wrong = np.zeros(1, np.int64), np.zeros(op.planes, np.int64)

    def forward(self, x, indices, y) -> None:
        resizing.unpool(x.reshape(self._x), indices.reshape(self._x), y.reshape(self._y), self._wrong)
        if not self.bad[0] and self._wrong.any():
            plane = int(np.argmax(self._wrong > 0))
            self.bad[0] = plane * self._x[1] + self._wrong[plane]

    def backward(self, dy, indices, dx) -> None:
        resizing.unpool_backward(dy.reshape(self._y), indices.reshape(self._x), dx.reshape(self._x))
