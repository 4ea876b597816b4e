"""The CPU's operations that change the size of images: bilinear interpolation and unpooling."""

from __future__ import annotations

import math

import numpy as np

from ..protocol import Shape
from ..resizing import aligned_axes
from .kernels import resizing
from .memory import Memory


class Interpolation:
    """y (N, C, OH, OW) = the part of x (N, C, H, W) from ``start`` on of ``size``, bilinear; their corners coincide."""

    def __init__(self, device: Memory, x: tuple[int, ...], y: tuple[int, ...], start: Shape, size: Shape):
        self._x, self._y = ((math.prod(shape[:2]), *shape[2:]) for shape in (x, y))
        self._axes = tuple(
            part
            for axis in aligned_axes(x, y, start, size)
            for part in (axis.low, axis.high, axis.share.astype(device.dtype))
        )

    def forward(self, x, y) -> None:
        resizing.interpolate(x.reshape(self._x), *self._axes, y.reshape(self._y))

    def backward(self, dy, dx) -> None:
        resizing.interpolate_backward(dy.reshape(self._y), *self._axes, dx.reshape(self._x))


class Unpooling:
    """y (planes, Q) = 0, but for x (planes, P) at ``places`` (planes, P). ``bad`` as in SoftmaxLoss."""

    def __init__(self, planes: int, p: int, q: int):
        self._x, self._y = (planes, p), (planes, q)
        self.bad, self._wrong = np.zeros(1, np.int64), np.zeros(planes, np.int64)

    def forward(self, x, places, y) -> None:
        resizing.unpool(x.reshape(self._x), places.reshape(self._x), y.reshape(self._y), self._wrong)
        if not self.bad[0] and self._wrong.any():
            plane = int(np.argmax(self._wrong > 0))
            self.bad[0] = plane * self._x[1] + self._wrong[plane]

    def backward(self, dy, places, dx) -> None:
        resizing.unpool_backward(dy.reshape(self._y), places.reshape(self._x), dx.reshape(self._x))
