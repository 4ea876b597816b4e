"""Convolutions by Winograd's minimal filtering, of 3×3 and 5×5 windows: see kernels/winograd.py."""

import math

import numpy as np

from .. import algorithms, ops
from ..algorithms import LANES, PANEL, Tile, rounded
from .formula_kernels import FormulaKernels
from .kernels import winograd

LINE = 64  # bytes: parts of the workspace start on cache lines


def panels(channels: int) -> np.ndarray:
    """The first vector of each panel of at most PANEL vectors, of nearly equal widths, and the end of the last."""
    vectors = rounded(channels, LANES) // LANES
    count = -(-vectors // PANEL)
    return np.array([j * vectors // count for j in range(count + 1)], np.int64)


class _Geometry:
    """Sizes for one direction: x (N, H, W, C) to y (N, OH, OW, M) with a pad. sizes: of the workspace's arrays, which
    all groups use in turn; packed_sizes: where weights are packed before."""

    def __init__(
        self, x: tuple[int, ...], y: tuple[int, ...], pad: tuple[int, ...], groups: int, tile: Tile, threads: int
    ):
        self.pad = np.array(pad, np.int64)
        self.x, self.y = ((shape[0], *shape[2:], shape[1]) for shape in (x, y))
        self.tiles = algorithms.tile_count(y, tile.outputs)
        c, m = x[1] // groups, y[1] // groups
        self.block = algorithms.block_tiles(c, m, self.tiles, tile, threads)
        self.panels = panels(m)
        self.by_panels, self.depth = algorithms.by_panels(m, self.tiles), algorithms.panel_depth(c, self.tiles)
        sizes = c, m, self.tiles, tile, threads
        self.sizes, self.packed_sizes = algorithms.pass_sizes(*sizes), algorithms.packed_sizes(*sizes)


class WinogradConvolution:
    """w (M, C/groups, r, r), r = 3 or 5, in float32 by tiles of ``outputs``² outputs, group by group. A group has LANES
    channels or more, and C/groups is a multiple of 4 for the weight gradient.

    Results do not depend on the number of threads. A number that is not finite makes its whole tile NaN. ``panels``:
    the first vector of each panel of outputs.
    """

    def __init__(self, device: FormulaKernels, op: ops.Convolution, outputs: int):
        x, y, window, groups = op.x, op.y, op.window, op.groups
        size, threads = window.kernel[0], device.threads
        self._device, self.tile, self._groups = device, Tile(outputs, size), groups
        c, m = x[1] // groups, y[1] // groups
        back = (size - 1 - window.pad[0], size - 1 - window.pad[1])
        self._forward = _Geometry(x, y, window.pad, groups, self.tile, threads)
        self.panels = self._forward.panels
        self._data = _Geometry(y, x, back, groups, self.tile, threads)
        self._tables = np.zeros((threads, 2, 64), np.int64)
        self._zeros = np.zeros(max(c, m), np.float32)
        self._chunk = algorithms.chunk_tiles(c, m, self._forward.tiles, self.tile)
        self._gradient_sizes = algorithms.gradient_sizes(c, m, self._forward.tiles, self.tile, threads)
        self._weights = (groups, m, c, self.tile.taps)

    def _parts(self, sizes: tuple[int, ...]) -> list[np.ndarray]:
        """Parts of the workspace, which start on cache lines."""
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + rounded(4 * size, LINE))
        space = self._device.space(offsets[-1] + LINE)
        start = -space.ctypes.data % LINE
        areas = zip(offsets, sizes, strict=False)
        return [self._device.view(space, start + offset, (size,), np.float32) for offset, size in areas]

    def _run(self, geometry: _Geometry, x, w, rotated: bool, bias, slope: float | None, y) -> None:
        first, blocks, rough = self._parts(geometry.sizes)
        for group in range(self._groups):
            if geometry.by_panels:
                self._convolve_panels(geometry, group, x, w, rotated, bias, slope, y, first, blocks, rough)
            else:
                self._transform(geometry, group, w, rotated, first, rough)
                self._multiply(geometry, group, x, first, blocks, bias, slope, y)

    def _convolve_panels(self, geometry, group, x, w, rotated, bias, slope, y, inputs, panels, rough) -> None:
        panels, rough = (space.reshape(len(self._tables), -1) for space in (panels, rough))
        w, bias = w.reshape(self._weights)[group], self._group_bias(group, bias)
        x, y, factor = x.reshape(geometry.x), y.reshape(geometry.y), np.float32(1 if slope is None else slope)
        how = group, self._groups, geometry.pad, *self.tile, geometry.depth
        spaces = inputs, panels, rough, self._zeros, self._tables
        winograd.convolve_panels(x, w, rotated, geometry.panels, bias, factor, y, *how, *spaces)

    def _group_bias(self, group: int, bias) -> np.ndarray:
        return self._zeros if bias is None else bias.reshape(self._groups, -1)[group]

    def _transform(self, geometry: _Geometry, group: int, w, rotated: bool, packed, rough) -> None:
        rough, w = rough.reshape(len(self._tables), -1), w.reshape(self._weights)[group]
        winograd.transform_weights(w, rotated, geometry.panels, packed, rough, self._tables, *self.tile)

    def _multiply(self, geometry: _Geometry, group: int, x, packed, blocks, bias, slope: float | None, y) -> None:
        blocks = blocks.reshape(len(self._tables), -1)
        bias = self._group_bias(group, bias)
        x, y, factor = x.reshape(geometry.x), y.reshape(geometry.y), np.float32(1 if slope is None else slope)
        how = group, self._groups, geometry.pad, *self.tile, geometry.block, blocks, self._tables
        winograd.convolve(x, packed, geometry.panels, bias, factor, y, *how)

    def prepare(self, w) -> np.ndarray:
        """The transformed weights (groups, ·) for ``run_prepared``."""
        packed = self._device.empty((self._groups, self._forward.packed_sizes[0]), np.float32)
        (rough,) = self._parts(self._forward.packed_sizes[2:])
        for group in range(self._groups):
            self._transform(self._forward, group, w, False, packed[group], rough)
        return packed

    def run_prepared(self, packed: np.ndarray, x, b, y, slope: float | None = None) -> None:
        """``forward`` with the weights that ``prepare`` returned."""
        (blocks,) = self._parts(self._forward.packed_sizes[1:2])
        for group in range(self._groups):
            self._multiply(self._forward, group, x, packed[group], blocks, b, slope, y)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        self._run(self._forward, x, w, False, b, slope, y)

    def data_gradient(self, dy, w, dx) -> None:
        self._run(self._data, dy, w, True, None, None, dx)

    def weight_gradient(self, x, dy, dw, add: bool = False) -> None:
        """For tiles of EXACT_TILE² outputs. add: adds to what is there."""
        assert self.tile.outputs == algorithms.EXACT_TILE
        inputs, gradients, products, rough = self._parts(self._gradient_sizes)
        rough, dw = rough.reshape(len(self._tables), -1), dw.reshape(self._weights)
        for group in range(self._groups):
            self._sum_products(group, x, dy, inputs, gradients, products)
            winograd.finish_weights(products, self._forward.panels, dw[group], add, rough, self._tables)

    def _sum_products(self, group: int, x, dy, inputs, gradients, products) -> None:
        forward, square = self._forward, self.tile.square
        x, dy, panels = x.reshape(forward.x), dy.reshape(forward.y), forward.panels
        which, channels = (group, self._groups), forward.x[3] // self._groups
        for first in range(0, forward.tiles, self._chunk):
            last = min(forward.tiles, first + self._chunk)
            where = *which, forward.pad, first, last, inputs, gradients, self._zeros, self._tables
            winograd.transform_images(x, dy, panels, *where)
            winograd.multiply_images(inputs, gradients, panels, channels, last - first, square, products, first > 0)


class WidenedWinogradConvolution(WinogradConvolution):
    """The same of bfloat16 images, which are converted to float32 in the workspace and back: where the processor
    multiplies bfloat16 numbers fast, fewer multiplications of float32 numbers may still be faster."""

    def __init__(self, device: FormulaKernels, op: ops.Convolution, outputs: int):
        super().__init__(device, op, outputs)
        self._image_sizes = math.prod(op.x), math.prod(op.y)
        self._to_half, self._to_float = device.conversions()

    def _parts(self, sizes: tuple[int, ...]) -> list[np.ndarray]:
        return super()._parts((*self._image_sizes, *sizes))[2:]

    def _images(self, sizes: tuple[int, ...]) -> list[np.ndarray]:
        """The room for x and y in the workspace of a pass with parts of these sizes."""
        return super()._parts((*self._image_sizes, *sizes))[:2]

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        wide_x, wide_y = self._images(self._forward.sizes)
        self._to_float(x, wide_x)
        super().forward(wide_x, w, b, wide_y, slope)
        self._to_half(wide_y, y)

    def data_gradient(self, dy, w, dx) -> None:
        wide_x, wide_y = self._images(self._data.sizes)
        self._to_float(dy, wide_y)
        super().data_gradient(wide_y, w, wide_x)
        self._to_half(wide_x, dx)

    def weight_gradient(self, x, dy, dw, add: bool = False) -> None:
        wide_x, wide_y = self._images(self._gradient_sizes)
        self._to_float(x, wide_x)
        self._to_float(dy, wide_y)
        super().weight_gradient(wide_x, wide_y, dw, add)
