"""ROIWarping: values of an image on a grid within each box."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.layer import Shape, register
from .boxes import BoxLayer
from .points import Points, in_reach, rounded


@register
class ROIWarping(BoxLayer):
    """The interpolated values of x at pooled_h × pooled_w points of each box: x (N, C, H, W), boxes (R, 5) → (R, C,
    pooled_h, pooled_w).

    Corners times spatial_scale are rounded to pixels, halves away from 0; point (i, j) is at y1 + i (y2 - y1) /
    pooled_h, x1 + j (x2 - x1) / pooled_w. Points more than half a pixel outside give 0. Boxes get no gradient here; the
    fork has one, as if corners were not rounded. Errors: a box of an image that x has not. Source: Dai et al. 2016, as
    in daijifeng001/caffe-mnc src/caffe/layers/roi_warping_layer.cu.
    """

    field = "roi_warping_param"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "pooled_h")
        require.positive(self, "pooled_w")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        return [(bottoms[1][0], bottoms[0][1], self.p.pooled_h, self.p.pooled_w)]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        sample, corners = self.boxes(x)
        x1, y1, x2, y2 = rounded(xp, corners * self.p.spatial_scale).T[..., None]
        rows = y1 + xp.arange(self.p.pooled_h) * xp.maximum(y2 - y1, 0) / self.p.pooled_h
        columns = x1 + xp.arange(self.p.pooled_w) * xp.maximum(x2 - x1, 0) / self.p.pooled_w
        row, column = rows[:, None, :, None], columns[:, None, None, :]
        channel = xp.arange(x[0].shape[1])[:, None, None]
        inside = in_reach(x[0].shape, row, column)
        return Points(xp, x[0].shape, sample[:, None, None, None], channel, row, column, inside)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return self.points(xp, x).values(x[0])
