"""The GPU's operations that change the size of images: bilinear interpolation and unpooling."""

from __future__ import annotations

import math

import numpy as np

from ..protocol import Shape
from ..resizing import aligned_axes
from .formula_kernels import FormulaKernels
from .operations import Labels


class Interpolation:
    """y (N, C, OH, OW) = the part of x (N, C, H, W) from ``start`` on of ``size``, bilinear; their corners coincide."""

    def __init__(self, device: FormulaKernels, x: tuple[int, ...], y: tuple[int, ...], start: Shape, size: Shape):
        sizes = math.prod(x[:2]), *x[2:], *y[2:]
        largest = max(math.prod(x), math.prod(y))
        self._forward = device.kernel("resizing", "interpolate", math.prod(y), *sizes, size=largest)
        self._backward = device.kernel("resizing", "interpolate_backward", math.prod(x), *sizes, size=largest)
        self._sources, self._targets = [], []
        for axis in aligned_axes(x, y, start, size):
            self._sources += [self._uploaded(device, part) for part in (axis.low, axis.high)]
            self._sources.append(self._uploaded(device, axis.share.astype(device.dtype)))
            self._targets += [self._uploaded(device, part) for part in (axis.first, axis.last)]

    @staticmethod
    def _uploaded(device: FormulaKernels, values: np.ndarray):
        array = device.empty(values.shape, values.dtype)
        device.upload(array, values)
        return array

    def forward(self, x, y) -> None:
        self._forward(x, y, *self._sources)

    def backward(self, dy, dx) -> None:
        self._backward(dy, dx, *self._sources, *self._targets)


class Unpooling(Labels):
    """See interfaces.Unpooling."""

    def __init__(self, device: FormulaKernels, planes: int, p: int, q: int):
        super().__init__(device, None)
        self._device, self._count, sizes = device, planes * q, (planes, p, q)
        size = planes * max(p, q)
        self._find = device.kernel("resizing", "unpool_find", planes * p, *sizes, size=size)
        self._forward = device.kernel("resizing", "unpool", planes * q, *sizes, size=size)
        self._backward = device.kernel("resizing", "unpool_backward", planes * p, *sizes, size=size)

    def forward(self, x, places, y) -> None:
        winners = self._device.workspace(self._count, np.int32)
        self._device.fill(winners, 0)
        self._find(places, winners, self._first)
        self._forward(x, winners, y, self._first, self.bad)

    def backward(self, dy, places, dx) -> None:
        self._backward(dy, places, dx)
