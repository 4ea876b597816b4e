"""Depthwise 3×3 convolutions by kernels of our own, see kernels/depthwise.py."""

import numpy as np

from .. import algorithms, ops
from ..algorithms import rounded
from .kernels import depthwise
from .memory import Memory


class DepthwiseConvolution:
    """w (C, 1, 3, 3): each channel by itself; stride 1 or 2. half: bfloat16. Results do not depend on the number of
    threads."""

    def __init__(self, device: Memory, op: ops.Convolution):
        x, y, window = op.x, op.y, op.window
        self._device, self._stride, channels = device, window.stride[0], x[1]
        self._x, self._y = ((shape[0], *shape[2:], channels) for shape in (x, y))
        self._pad, self._back = np.array(window.pad, np.int64), np.array([2 - p for p in window.pad], np.int64)
        self._packed, self._partial = algorithms.depthwise_sizes(x, y)
        self._tables = np.zeros((max(device.threads, self._partial[0]), depthwise.TABLE), np.int64)
        self.zeros, self._weights = np.zeros(rounded(channels, algorithms.LANES), np.float32), (channels, 9)

    def _space(self) -> tuple[np.ndarray, np.ndarray]:
        """The packed weights, and numbers that nobody reads, a row for each thread."""
        threads, count = self._device.threads, self._packed[0] * self._packed[1]
        space = self._device.workspace(count + threads * self._packed[1], np.float32)
        return space[:count].reshape(self._packed), space[count:].reshape(threads, -1)

    def prepare(self, w) -> np.ndarray:
        """The packed weights for ``run_prepared``."""
        packed = self._device.empty(self._packed, np.float32)
        depthwise.pack(w.reshape(self._weights), False, packed)
        return packed

    def run_prepared(self, packed: np.ndarray, x, b, y, slope: float | None = None) -> None:
        """``forward`` with the weights that ``prepare`` returned."""
        self._convolve(packed, self._space()[1], x, b, y, slope)

    def _convolve(self, packed: np.ndarray, unused: np.ndarray, x, b, y, slope: float | None) -> None:
        alone = self._device.active_threads == 1
        bias, factor = self.zeros if b is None else b.reshape(-1), np.float32(1 if slope is None else slope)
        where = self._pad, self._stride, unused, self._tables[: len(unused)], self.zeros
        run = depthwise.convolve_alone if alone else depthwise.convolve
        run(x.reshape(self._x), packed, bias, factor, y.reshape(self._y), *where)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        packed, unused = self._space()
        depthwise.pack(w.reshape(self._weights), False, packed)
        self._convolve(packed, unused, x, b, y, slope)

    def data_gradient(self, dy, w, dx) -> None:
        packed, unused = self._space()
        dy, dx, tables = dy.reshape(self._y), dx.reshape(self._x), self._tables[: len(unused)]
        depthwise.pack(w.reshape(self._weights), self._stride == 1, packed)
        if self._stride == 1:
            where = self._back, 1, unused, tables, self.zeros
            depthwise.convolve(dy, packed, self.zeros, np.float32(1), dx, *where)
        else:
            depthwise.spread(dy, packed, dx, self._pad, self._stride, tables)

    def weight_gradient(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        chunks, rows, width = self._partial
        partial = self._device.workspace(chunks * rows * width, np.float32).reshape(self._partial)
        x, dy, dw = x.reshape(self._x), dy.reshape(self._y), dw.reshape(self._weights)
        where = self._pad, self._stride, partial, self._tables[:chunks], self.zeros
        depthwise.weight_gradient(x, dy, dw, add, *where)
