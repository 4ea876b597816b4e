"""The GPU's operations that change the size of images: bilinear interpolation and unpooling."""

import math

import numpy as np

from .. import ops
from ..resizing import aligned_axes
from .formula_kernels import FormulaKernels
from .operations import Labels
from .registry import implements


@implements(ops.Interpolation)
class Interpolation:
    def __init__(self, device: FormulaKernels, op: ops.Interpolation):
        x, y = op.x, op.y
        sizes = math.prod(x[:2]), *x[2:], *y[2:]
        self._forward = device.kernel("resizing", "interpolate", math.prod(y), *sizes)
        self._backward = device.kernel("resizing", "interpolate_backward", math.prod(x), *sizes)
        axes = aligned_axes(x, y, op.start, op.size)
        self._axes = [device.uploaded(np.concatenate(axis[:4])) for axis in axes]
        self._axes += [device.uploaded(axis.share.astype(device.dtype)) for axis in axes]

    def forward(self, x, y) -> None:
        self._forward(x, y, *self._axes)

    def backward(self, dy, dx) -> None:
        self._backward(dy, dx, *self._axes)


@implements(ops.Unpooling)
class Unpooling(Labels):
    def __init__(self, device: FormulaKernels, op: ops.Unpooling):
        super().__init__(device)
        planes, p, q = sizes = op.planes, op.p, op.q
        self._device, self._count = device, planes * q
        self._find = device.kernel("resizing", "unpool_find", planes * p, *sizes)
        self._forward = device.kernel("resizing", "unpool", planes * q, *sizes)
        self._backward = device.kernel("resizing", "unpool_backward", planes * p, *sizes)

    def forward(self, x, indices, y) -> None:
        winners = self._device.workspace(self._count, np.int32)
        self._device.fill(winners, 0)
        self._find(indices, winners, self._first)
        self._forward(x, winners, y, self._first, self.bad)

    def backward(self, dy, indices, dx) -> None:
        self._backward(dy, indices, dx)
