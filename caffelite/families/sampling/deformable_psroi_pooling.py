"""DeformablePSROIPooling: cells of boxes that learned offsets move."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.layer import Shape, register
from .boxes import BoxLayer
from .points import Points, in_reach


@register
class DeformablePSROIPooling(BoxLayer):
    """The mean of the interpolated values at sample_per_part² points of each of group_size × group_size cells of each
    box, moved by offsets, a cell from channels of its own: x (N, C, H, W), C = output_dim · group_size², boxes (R, 5),
    offsets (R, 2·K, part_size, part_size) unless no_trans → (R, output_dim, group_size, group_size).

    Cell (i, j) of output c reads channel (c · group_size + i) · group_size + j. Corners are rounded, the last plus 1,
    then multiplied by spatial_scale, less 0.5; a box is at least 0.1 wide and high. Offsets, columns before rows, are
    those of class c · K / output_dim; trans_std times the box's size moves the cell. Points more than half a pixel
    outside do not count; a cell without points gives 0. Defaults: part_size group_size, sample_per_part 1, trans_std 0.
    Errors: another number of channels, offsets of another shape; a box of an image that x has not. Source: Dai et al.
    2017, as in GT9505/MONet caffe/src/caffe/layers/deformable_psroi_pooling_layer.cu.
    """

    field = "deformable_psroi_pooling_param"
    bottoms = (2, 3)

    def setup(self) -> None:
        super().setup()
        require.positive(self, "sample_per_part")
        wanted = 2 if self.p.no_trans else 3
        if len(self.spec.bottom) != wanted:
            found, expected = f"{len(self.spec.bottom)} bottoms", f"{wanted}: x, boxes{', offsets' * (wanted == 3)}"
            raise self.error("no_trans and the bottoms do not fit", "no_trans", expected=expected, found=found)
        if self.p.HasField("pooled_size") and self.p.pooled_size != self.p.group_size:
            expected, found = f"group_size, {self.p.group_size}", self.p.pooled_size
            raise self.error("pools into group_size cells", "pooled_size", expected=expected, found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        self.group_channels(bottoms)
        self.cells, count = self.p.part_size or self.p.group_size, bottoms[1][0]
        if not self.p.no_trans:
            shape = bottoms[2]
            self.classes = shape[1] // 2 if len(shape) == 4 else 0
            fits = shape == (count, 2 * self.classes, self.cells, self.cells)
            if not fits or not self.classes or self.p.output_dim % self.classes:
                expected = f"{count}×2·K×{self.cells}×{self.cells}, K a divisor of {self.p.output_dim}"
                raise self.bottom_error(2, "does not fit", expected=expected, found=list(shape))
        return [(count, self.p.output_dim, self.p.group_size, self.p.group_size)]

    def _cell_index(self, xp: ModuleType) -> tuple:
        """Of the offsets of each cell of each output: class, row, column."""
        part = xp.arange(self.p.group_size) * self.cells // self.p.group_size
        label = xp.arange(self.p.output_dim) // (self.p.output_dim // self.classes)
        return label[:, None, None], part[:, None], part

    def points(self, xp: ModuleType, x: tuple) -> Points:
        (sample, corners), p = self.boxes(x), self.p
        group, scale, per = p.group_size, p.spatial_scale, p.sample_per_part
        moves = 0, 0
        if not p.no_trans:
            label, high, wide = self._cell_index(xp)
            moves = tuple(x[2][:, 2 * label + side, high, wide] * p.trans_std for side in (0, 1))
        positions, self.extents = [], []
        for side in (0, 1):  # columns, rows
            first = xp.floor(corners[:, side] + 0.5) * scale - 0.5
            last = (xp.floor(corners[:, side + 2] + 0.5) + 1) * scale - 0.5
            extent = xp.maximum(last - first, 0.1).reshape(-1, 1, 1, 1)
            cell = xp.arange(group).reshape(-1, 1) if side else xp.arange(group)
            start = first.reshape(-1, 1, 1, 1) + cell * extent / group + moves[side] * extent
            inner = xp.arange(per).reshape(-1, 1) if side else xp.arange(per)
            positions.append(start[..., None, None] + inner * (extent / group / per)[..., None, None])
            self.extents.append(extent)
        column, row = positions
        channels = xp.arange(p.output_dim * group * group).reshape(1, -1, group, group, 1, 1)
        inside = in_reach(x[0].shape, row, column)
        self.counts = xp.broadcast_to(inside, inside.shape[:4] + (per, per)).sum((4, 5))
        return Points(xp, x[0].shape, sample.reshape(-1, 1, 1, 1, 1, 1), channels, row, column, inside)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        values = self.points(xp, x).values(x[0]).sum((4, 5))
        return values / xp.maximum(self.counts, 1)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        points, slopes = self.points(xp, x), xp.zeros_like(x[0])
        above = (dy[0] / xp.maximum(self.counts, 1))[..., None, None]
        points.add(slopes, above)
        if self.p.no_trans:
            return slopes, None
        moves, (label, high, wide) = xp.zeros_like(x[2]), self._cell_index(xp)
        rows, columns = points.slopes(x[0])
        box = xp.arange(len(x[1])).reshape(-1, 1, 1, 1)
        for side, each in enumerate((columns, rows)):
            total = (above * each).sum((4, 5)) * self.p.trans_std * self.extents[side]
            index = xp.broadcast_arrays(box, 2 * label + side, high, wide, total)[:4]
            xp.add.at(moves, tuple(index), total)
        return slopes, None, moves

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return 4 * math.prod(tops[0]) * self.p.sample_per_part**2
