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

    def __init__(self, device: FormulaKernels, x: Shape, y: Shape, start: Shape, size: Shape):
        sizes = math.prod(x[:2]), *x[2:], *y[2:]
        self._forward = device.kernel("resizing", "interpolate", math.prod(y), *sizes)
        self._backward = device.kernel("resizing", "interpolate_backward", math.prod(x), *sizes)
        axes = aligned_axes(x, y, start, size)
        self._axes = [device.uploaded(np.concatenate(axis[:4])) for axis in axes]
        self._axes += [device.uploaded(axis.share.astype(device.dtype)) for axis in axes]

    def forward(self, x, y) -> None:
        self._forward(x, y, *self._axes)

    def backward(self, dy, dx) -> None:
        self._backward(dy, dx, *self._axes)


class Unpooling(Labels):
    """See interfaces.Unpooling."""

    def __init__(self, device: FormulaKernels, planes: int, p: int, q: int):
        super().__init__(device)
        self._device, self._count, sizes = device, planes * q, (planes, p, q)
        self._find = device.kernel("resizing", "unpool_find", planes * p, *sizes)
        self._forward = device.kernel("resizing", "unpool", planes * q, *sizes)
        self._backward = device.kernel("resizing", "unpool_backward", planes * p, *sizes)

    def forward(self, x, places, y) -> None:
        winners = self._device.workspace(self._count, np.int32)
        self._device.fill(winners, 0)
        self._find(places, winners, self._first)
        self._forward(x, winners, y, self._first, self.bad)

    def backward(self, dy, places, dx) -> None:
        self._backward(dy, places, dx)
