"""Weight gradients of channels_last convolutions. oneDNN's direct kernels add up all pixels of a whole batch in one
float32 register on many processors, which rounds far worse than BLAS; kernels of our own sum in blocks."""

import ctypes as ct
import functools
import math
from typing import Protocol

import numpy as np

from .. import algorithms, ops
from . import onednn, weight_orders
from .formula_kernels import FormulaKernels
from .kernels import direct, each_channel
from .onednn import DIRECT, FORWARD_TRAINING, Library

LINE = 64  # bytes: arrays in the workspace start on cache lines
IN_BLOCKS = "jit_1x1", "gemm"  # in the names of oneDNN's implementations that sum in blocks
PADDED_BYTES = 1 << 20  # of images with their pad at a time, which stay in the caches
TOTALS_BYTES = 1 << 20  # of sums that stay in the caches while the pixels of an image pass
PIXELS = 256  # of several images that are summed at a time where the sums do not stay there
TASKS = 32  # at least, so that all threads have work; fixed, so that results do not depend on the number of threads


def pair(a: int, b: int) -> ct.Array:
    return (ct.c_int64 * 2)(a, b)


class WeightGradient(Protocol):
    """dw (M, C/groups, kh, kw) = [dw +] the gradient from x (N, H, W, C) and dy (N, OH, OW, M)."""

    def run(self, x, dy, dw, add: bool = False) -> None: ...


def weight_gradient(device: FormulaKernels, library: Library, op: ops.Convolution) -> WeightGradient:
    theirs = LibraryGradient(device, library, op)
    if op.half or theirs.sums_in_blocks:
        return theirs
    if algorithms.is_depthwise(op.x, op.y, op.groups):
        return ChannelGradient(device, op)
    return DirectGradient(device, op)


class LibraryGradient:
    """The weight gradient by oneDNN."""

    def __init__(self, device: FormulaKernels, library: Library, op: ops.Convolution):
        self._device, self._library, self._window, groups = device, library, op.window, op.groups
        c, m, kind = op.x[1] // groups, op.y[1] // groups, onednn.BF16 if op.half else onednn.F32
        self._dims = (m, c, *op.window.kernel) if groups == 1 else (groups, m, c, *op.window.kernel)
        self._x, self._y = library.channels_last(op.x, kind), library.channels_last(op.y, kind)
        self._any_w, self._any_dw = library.layout(self._dims, dtype=kind), library.layout(self._dims)

    @functools.cached_property
    def _descriptor(self) -> onednn.Descriptor:
        library, (_, stride, pad, dilation) = self._library, self._window
        geometry = pair(*stride), pair(*(d - 1 for d in dilation)), pair(*pad), pair(*pad)
        forward = FORWARD_TRAINING, DIRECT, self._x, self._any_w, None, self._y
        hint = library.describe("convolution_forward", *forward, *geometry, library.attributes())
        backward = DIRECT, self._x, self._any_dw, None, self._y
        return library.describe("convolution_backward_weights", *backward, *geometry, hint.handle, library.attributes())

    @property
    def sums_in_blocks(self) -> bool:
        return any(kind in self._descriptor.name for kind in IN_BLOCKS)

    @functools.cached_property
    def _primitive(self) -> tuple:
        """(the primitive, what stores its sum in Caffe's order, what adds it there, bytes of the workspace)."""
        descriptor, library = self._descriptor, self._library
        theirs, ours = descriptor.layout("dw"), library.dense(self._dims)
        sums = -(-library.bytes(theirs) // LINE) * LINE
        primitive = descriptor.primitive("x", "dy", "dw", "scratch")
        primitive.at[-1] = sums
        room = descriptor.bytes("scratch")
        if own := weight_orders.unpacking(self._device, self._dims, library.blocking(theirs), sums):
            store, accumulate = (lambda sums, dw, add=add: own.run(dw, sums, add) for add in (False, True))
            room = max(room, own.room)
        else:
            store, accumulate = (library.reorder(theirs, ours, add).run for add in (False, True))
        return primitive, store, accumulate, sums + room

    def run(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        primitive, store, accumulate, size = self._primitive
        space = self._device.space(size)
        primitive.run(x, dy, space, space)
        (accumulate if add else store)(space, dw)


class DirectGradient:
    """The weight gradient by kernels/direct.py, a group of channels at a time."""

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        (n, c, h, w), (_, m, oh, ow), groups = op.x, op.y, op.groups
        (kh, kw), (sh, sw), (ph, pw), (dh, dw) = op.window
        self._device, self._groups, self._weights = device, groups, (m, c // groups * kh * kw)
        high, wide, self._each = h + 2 * ph, w + 2 * pw, c // groups
        self._x, self._y, self._pad = (n, h, w * c), (n, oh * ow, m), (ph, pw * c)
        self._padded = min(n, max(1, PADDED_BYTES // (4 * high * wide * c))), high, wide * c
        self._chunk = self._padded[0] if ph or pw else n
        self._steps = ((np.arange(oh) * sh * wide)[:, None] + np.arange(ow) * sw).reshape(-1) * c
        # Neighboring positions are channels of one pixel.
        taps = (np.arange(kh) * dh * wide)[:, None] + np.arange(kw) * dw
        rows = (taps.reshape(-1, 1) * c + np.arange(self._each)).reshape(-1)
        self._order = (np.arange(kh * kw)[:, None] + np.arange(self._each) * kh * kw).reshape(-1)
        self._rows = np.pad(rows, (0, -len(rows) % direct.ROWS), "edge")
        tiles, blocks = len(self._rows) // direct.ROWS, -(-m // groups // direct.GROUP)
        chunks = min(self._chunk, -(-TASKS // (tiles * blocks)))
        self._totals = chunks, blocks, tiles, direct.ROWS * direct.GROUP
        large = 4 * math.prod(self._totals) > TOTALS_BYTES
        self._images = max(1, PIXELS // (oh * ow)) if large else 1
        self._edge = np.zeros(blocks * direct.GROUP, np.float32)

    def run(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        size = 4 * math.prod(self._totals)
        padded = 4 * math.prod(self._padded) if any(self._pad) else 0
        space, device = self._device.space(size * self._groups + padded), self._device
        x, dy, dw = x.reshape(self._x), dy.reshape(self._y), dw.reshape(self._groups, -1, self._weights[1])
        for i in range(0, len(x), self._chunk):
            images, gradients = x[i : i + self._chunk], dy[i : i + self._chunk]
            if padded:
                target = device.view(space, size * self._groups, (len(images), *self._padded[1:]))
                direct.pad(images, target, *self._pad)
                images = target
            for group, weights in enumerate(dw):
                totals = device.view(space, size * group, self._totals)
                channels = group * self._each, group * len(weights), len(weights)
                tables = self._edge, self._rows, self._steps, self._images
                direct.gradient(images, gradients, *channels, totals, *tables, i > 0)
        for group, weights in enumerate(dw):
            direct.join(device.view(space, size * group, self._totals), self._order, weights, add)


class ChannelGradient:
    """The weight gradient of each channel by itself, by kernels/each_channel.py."""

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        self._device, self._window = device, op.window
        self._x, self._y = ((n, h, w, c) for n, c, h, w in (op.x, op.y))
        self._space = math.prod(op.window.kernel), 2, op.x[1]

    def run(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        space = self._device.workspace(math.prod(self._space), np.float32).reshape(self._space)
        dw = dw.reshape(self._x[3], -1)
        each_channel.gradient(x.reshape(self._x), dy.reshape(self._y), *self._window, space, dw, add)
