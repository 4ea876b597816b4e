"""PSROIAlign: means of points of the cells of boxes, each cell from channels of its own."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.layer import Shape, register
from .boxes import BoxLayer
from .points import Points


@register
class PSROIAlign(BoxLayer):
    """The mean of sample_num² interpolated values of each of group_size × group_size cells of each box, a cell from
    channels of its own: x (N, C, H, W), C = output_dim · group_size², boxes (R, 5) → (R, output_dim, group_size,
    group_size).

    Cell (i, j) of output c reads channel (c · group_size + i) · group_size + j. Corners, the last plus 1, are
    multiplied by spatial_scale and not rounded; a box is at least 0.1 wide and high; cells are cut at the middles of
    the outermost pixels; point k is k / (sample_num + 1) of a whole cell from the cell's start, and counts 0 beyond its
    end. Defaults: sample_num 2. Errors: another number of channels; a box of an image that x has not. Source:
    afantideng/R-FCN-PSROIAlign caffe/src/caffe/layers/psroi_align_layer.cu.
    """

    field = "psroi_align_param"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "sample_num")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        self.group_channels(bottoms)
        return [(bottoms[1][0], self.p.output_dim, self.p.group_size, self.p.group_size)]

    def _along(self, xp: ModuleType, first: Any, last: Any, size: int) -> tuple[Any, Any]:
        """The points of each cell along an axis, (R, cells, points), and which count."""
        group, points = self.p.group_size, self.p.sample_num
        first, last = first * self.p.spatial_scale, (last + 1) * self.p.spatial_scale
        step = (xp.maximum(last - first, 0.1) / group)[:, None]
        cells = xp.arange(group)
        start = xp.clip(first[:, None] + cells * step, 0, size - 1)
        end = xp.clip(first[:, None] + (cells + 1) * step, 0, size - 1)
        positions = start[..., None] + xp.arange(1, points + 1) * (step / (points + 1))[..., None]
        return positions, positions < end[..., None]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        (sample, corners), group = self.boxes(x), self.p.group_size
        rows, high = self._along(xp, corners[:, 1], corners[:, 3], x[0].shape[2])
        columns, wide = self._along(xp, corners[:, 0], corners[:, 2], x[0].shape[3])
        cells = xp.arange(self.p.output_dim * group * group).reshape(1, -1, group, group, 1, 1)
        at = sample.reshape(-1, 1, 1, 1, 1, 1)
        row, column = rows[:, None, :, None, :, None], columns[:, None, None, :, None, :]
        inside = high[:, None, :, None, :, None] & wide[:, None, None, :, None, :]
        return Points(xp, x[0].shape, at, cells, row, column, inside)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return self.points(xp, x).values(x[0]).mean((4, 5))

    def spread(self, xp: ModuleType, x: tuple, above: Any) -> Any:
        return above[..., None, None] / self.p.sample_num**2
