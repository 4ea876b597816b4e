"""Convolutions by Winograd's minimal filtering: F(2×2, 3×3) and F(4×4, 3×3), see kernels/winograd.py."""

from __future__ import annotations

import math

import numpy as np

from ..window import Window
from .kernels import winograd
from .kernels.vectors import LANES
from .memory import Memory

LINE = 64  # bytes: parts of the workspace start on cache lines
BLOCK_BYTES = 3 << 19  # of transformed tiles, which stay in a core's second-level cache
CHUNK_BYTES = 24 << 20  # of both factors of a weight gradient


def suits(x: tuple[int, ...], y: tuple[int, ...], window: Window, groups: int) -> bool:
    """Whether the kernels compute a convolution of x (N, C, H, W) to y (N, M, OH, OW)."""
    plain = window.kernel == (3, 3) and window.stride == (1, 1) and window.dilation == (1, 1) and groups == 1
    return plain and x[1] % LANES == 0 and y[1] % LANES == 0 and max(window.pad) <= 2


def _panels(channels: int) -> np.ndarray:
    """The first vector of each panel of at most 4 vectors, and the end of the last: panels of equal widths, or nearly."""
    vectors = channels // LANES
    count = -(-vectors // 4)
    return np.array([j * vectors // count for j in range(count + 1)], np.int64)


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


class _Geometry:
    """Workspace for one direction: x (N, H, W, C) to y (N, OH, OW, M) with a pad."""

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...], pad: tuple[int, ...], outputs: int, threads: int):
        self.x, self.y, self.pad = x, y, np.array(pad, np.int64)
        square, (c, m) = (outputs + 2) ** 2, (x[3], y[3])
        self.tiles = y[0] * -(-y[1] // outputs) * -(-y[2] // outputs)
        most = BLOCK_BYTES // (4 * square * (c + 4 * LANES))
        self.block = _rounded(max(1, min(most, -(-self.tiles // threads))), winograd.ROWS)
        self.panels = _panels(m)
        per_thread = self.block * square * (c + 4 * LANES) + c + 4 * LANES
        # in float32: the packed weights, the kernel's blocks, a row of weights
        self.sizes = square * c * m, threads * per_thread, threads * 9 * max(c, m)
        self.shapes = (square * c * m,), (threads, per_thread), (threads, 9 * max(c, m))


class WinogradConvolution:
    """y (N, OH, OW, M) = w (M, C, 3, 3) * x (N, H, W, C) + b (M) in float32, by tiles of ``outputs``² outputs.

    Results do not depend on the number of threads.
    """

    def __init__(self, device: Memory, x: tuple[int, ...], y: tuple[int, ...], window: Window, outputs: int):
        assert suits(x, y, window, 1), (x, y, window)
        self._device, self._outputs, self._threads = device, outputs, device.threads
        (n, c, h, w), (_, m, out_h, out_w) = x, y
        images, tops = (n, h, w, c), (n, out_h, out_w, m)
        back = (2 - window.pad[0], 2 - window.pad[1])
        self._forward = _Geometry(images, tops, window.pad, outputs, device.threads)
        self._data = _Geometry(tops, images, back, outputs, device.threads)
        self._tables = np.zeros((device.threads, 2, 64), np.int64)
        self._no_bias = np.zeros(max(c, m), np.float32)
        square = (outputs + 2) ** 2
        most = max(64, CHUNK_BYTES // (4 * square * (c + m)))
        self._chunks = -(-self._forward.tiles // most)
        self._chunk = -(-self._forward.tiles // self._chunks)
        self._factors = (square * self._chunk * c,), (square * self._chunk * m,), (square * c * m,)
        self._weights = (m, c, 9)

    @property
    def bytes(self) -> int:
        """The largest workspace of the three passes."""
        passes = self._forward.shapes, self._data.shapes, (*self._factors, self._forward.shapes[2])
        return max(sum(_rounded(4 * math.prod(shape), LINE) for shape in shapes) + LINE for shapes in passes)

    def _parts(self, *shapes: tuple[int, ...]) -> list[np.ndarray]:
        """Parts of the workspace, which start on cache lines."""
        sizes = [_rounded(4 * math.prod(shape), LINE) for shape in shapes]
        space = self._device.space(sum(sizes) + LINE)
        offset = -space.ctypes.data % LINE
        found = []
        for shape, size in zip(shapes, sizes, strict=True):
            found.append(self._device.view(space, offset, shape, np.float32))
            offset += size
        return found

    def _run(self, geometry: _Geometry, x, w, rotated: bool, bias, slope: float | None, y) -> None:
        packed, space, rough = self._parts(*geometry.shapes)
        w = w.reshape(self._weights)
        winograd.transform_weights(w, rotated, geometry.panels, packed, rough, self._tables, self._outputs)
        bias = self._no_bias if bias is None else bias.reshape(-1)
        x, y, factor = x.reshape(geometry.x), y.reshape(geometry.y), np.float32(1 if slope is None else slope)
        how = geometry.pad, self._outputs, geometry.block, space, self._tables
        winograd.convolve(x, packed, geometry.panels, bias, factor, y, *how)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        self._run(self._forward, x, w, False, b, slope, y)

    def data_gradient(self, dy, w, dx) -> None:
        self._run(self._data, dy, w, True, None, None, dx)

    def weight_gradient(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        forward, outputs = self._forward, self._outputs
        inputs, gradients, products, rough = self._parts(*self._factors, forward.shapes[2])
        x, dy, panels = x.reshape(forward.x), dy.reshape(forward.y), forward.panels
        for chunk in range(self._chunks):
            first, last = (min(forward.tiles, (chunk + k) * self._chunk) for k in (0, 1))
            where = forward.pad, outputs, first, last, inputs, gradients, self._no_bias, self._tables
            winograd.transform_images(x, dy, panels, *where)
            square, channels = (outputs + 2) ** 2, forward.x[3]
            winograd.multiply_images(inputs, gradients, panels, channels, last - first, square, products, chunk > 0)
        winograd.finish_weights(products, panels, dw.reshape(self._weights), add, rough, self._tables, outputs)
