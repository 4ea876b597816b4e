"""Convolutions by Winograd's minimal filtering, of 3×3 and 5×5 windows: see kernels/winograd.py."""

from __future__ import annotations

import numpy as np

from .. import algorithms
from ..algorithms import Tile, rounded
from ..window import Window
from .kernels import winograd
from .kernels.vectors import LANES
from .memory import Memory

LINE = 64  # bytes: parts of the workspace start on cache lines


def panels(channels: int) -> np.ndarray:
    """The first vector of each panel of at most 4 vectors, of nearly equal widths, and the end of the last."""
    vectors = channels // LANES
    count = -(-vectors // 4)
    return np.array([j * vectors // count for j in range(count + 1)], np.int64)


class _Geometry:
    """Sizes for one direction: x (N, H, W, C) to y (N, OH, OW, M) with a pad. sizes: of the workspace's parts."""

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...], pad: tuple[int, ...], tile: Tile, threads: int):
        self.pad = np.array(pad, np.int64)
        self.x, self.y = ((shape[0], *shape[2:], shape[1]) for shape in (x, y))
        self.tiles = algorithms.tile_count(y, tile.outputs)
        self.block = algorithms.block_tiles(x[1], self.tiles, tile, threads)
        self.panels = panels(y[1])
        self.sizes = algorithms.pass_sizes(x[1], y[1], self.tiles, tile, threads)


class WinogradConvolution:
    """y (N, OH, OW, M) = w (M, C, r, r) * x (N, H, W, C) + b (M) in float32, r = 3 or 5, by tiles of ``outputs``²
    outputs. x and y are given as N×C×H×W.

    Results do not depend on the number of threads. A number that is not finite makes its whole tile NaN.
    """

    def __init__(self, device: Memory, x: tuple[int, ...], y: tuple[int, ...], window: Window, outputs: int):
        size, threads = window.kernel[0], device.threads
        self._device, self._tile = device, Tile(outputs, size)
        (_, c, _, _), (_, m, _, _) = x, y
        back = (size - 1 - window.pad[0], size - 1 - window.pad[1])
        self._forward = _Geometry(x, y, window.pad, self._tile, threads)
        self._data = _Geometry(y, x, back, self._tile, threads)
        self._tables = np.zeros((threads, 2, 64), np.int64)
        self._zeros = np.zeros(max(c, m), np.float32)
        self._chunk = algorithms.chunk_tiles(c, m, self._forward.tiles, self._tile)
        self._gradient_sizes = algorithms.gradient_sizes(c, m, self._forward.tiles, self._tile, threads)
        self._weights = (m, c, self._tile.taps)

    def _parts(self, sizes: tuple[int, ...]) -> list[np.ndarray]:
        """Parts of the workspace, which start on cache lines."""
        places = [0]
        for size in sizes:
            places.append(places[-1] + rounded(4 * size, LINE))
        space = self._device.space(places[-1] + LINE)
        start = -space.ctypes.data % LINE
        found = zip(places, sizes, strict=False)
        return [self._device.view(space, start + place, (size,), np.float32) for place, size in found]

    def _run(self, geometry: _Geometry, x, w, rotated: bool, bias, slope: float | None, y) -> None:
        packed, blocks, rough = self._parts(geometry.sizes)
        self._transform(geometry, w, rotated, packed, rough)
        self._multiply(geometry, x, packed, blocks, bias, slope, y)

    def _transform(self, geometry: _Geometry, w, rotated: bool, packed, rough) -> None:
        rough, w = rough.reshape(len(self._tables), -1), w.reshape(self._weights)
        winograd.transform_weights(w, rotated, geometry.panels, packed, rough, self._tables, *self._tile)

    def _multiply(self, geometry: _Geometry, x, packed, blocks, bias, slope: float | None, y) -> None:
        blocks = blocks.reshape(len(self._tables), -1)
        bias = self._zeros if bias is None else bias.reshape(-1)
        x, y, factor = x.reshape(geometry.x), y.reshape(geometry.y), np.float32(1 if slope is None else slope)
        how = geometry.pad, *self._tile, geometry.block, blocks, self._tables
        winograd.convolve(x, packed, geometry.panels, bias, factor, y, *how)

    def prepare(self, w) -> np.ndarray:
        """The transformed weights for ``run_prepared``."""
        packed = np.empty(self._forward.sizes[0], np.float32)
        (rough,) = self._parts(self._forward.sizes[2:])
        self._transform(self._forward, w, False, packed, rough)
        return packed

    def run_prepared(self, packed: np.ndarray, x, b, y, slope: float | None = None) -> None:
        """``forward`` with the weights that ``prepare`` returned."""
        (blocks,) = self._parts(self._forward.sizes[1:2])
        self._multiply(self._forward, x, packed, blocks, b, slope, y)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        self._run(self._forward, x, w, False, b, slope, y)

    def data_gradient(self, dy, w, dx) -> None:
        self._run(self._data, dy, w, True, None, None, dx)

    def weight_gradient(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        forward, square = self._forward, self._tile.square
        inputs, gradients, products, rough = self._parts(self._gradient_sizes)
        rough = rough.reshape(len(self._tables), -1)
        x, dy, panels = x.reshape(forward.x), dy.reshape(forward.y), forward.panels
        channels = forward.x[3]
        for first in range(0, forward.tiles, self._chunk):
            last = min(forward.tiles, first + self._chunk)
            where = forward.pad, *self._tile, first, last, inputs, gradients, self._zeros, self._tables
            winograd.transform_images(x, dy, panels, *where)
            winograd.multiply_images(inputs, gradients, panels, channels, last - first, square, products, first > 0)
        winograd.finish_weights(products, panels, dw.reshape(self._weights), add, rough, self._tables, *self._tile)
