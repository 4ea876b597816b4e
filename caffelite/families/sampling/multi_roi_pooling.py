"""MultiROIPooling: pieces of an image around its landmarks."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape, register
from .points import Points, rounded


@register
class MultiROIPooling(ArrayLayer):
    """The pooled_h × pooled_w pixels around each of top_num landmarks of each image, a top for each: x (N, C, H, W),
    landmarks (N, 2·top_num), column and row → top_num tops (N, C, pooled_h, pooled_w).

    The first pixel is the landmark times spatial_scale less half of the sides, rounded down, then rounded, halves away
    from 0; pixels outside are 0. Errors: another number of tops or landmarks. Source: Li et al. 2018, as in
    mysee1989/PG-CNN src/multi_roi_pooling_layer.cu.
    """

    field = "multi_roi_pooling_param"
    bottoms, tops = (2, 2), (1, None)
    constant_bottoms = frozenset({1})
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "pooled_h")
        require.positive(self, "pooled_w")
        if len(self.spec.top) != self.p.top_num:
            expected = f"{self.p.top_num}, top_num"
            raise self.error(f"has {len(self.spec.top)} tops", "top_num", expected=expected)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        count = bottoms[0][0] * 2 * self.p.top_num
        if math.prod(bottoms[1]) != count:
            expected = f"{count} values, a column and a row for each top and image"
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        return [(*bottoms[0][:2], self.p.pooled_h, self.p.pooled_w)] * self.p.top_num

    def _points(self, xp: ModuleType, x: tuple) -> list[Points]:
        n, c, height, width = x[0].shape
        p, centers = self.p, x[1].reshape(n, -1, 2) * self.p.spatial_scale
        column = rounded(xp, centers[..., 0] - p.pooled_w // 2).reshape(n, -1, 1, 1, 1) + xp.arange(p.pooled_w)
        row = rounded(xp, centers[..., 1] - p.pooled_h // 2).reshape(n, -1, 1, 1, 1) + xp.arange(p.pooled_h)[:, None]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        sample, channel = xp.arange(n).reshape(-1, 1, 1, 1), xp.arange(c).reshape(-1, 1, 1)
        each = range(p.top_num)
        return [Points(xp, x[0].shape, sample, channel, row[:, i], column[:, i], inside[:, i]) for i in each]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return tuple(points.values(x[0]) for points in self._points(xp, x))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = xp.zeros_like(x[0])
        for points, above in zip(self._points(xp, x), dy, strict=True):
            points.add(slopes, above)
        return slopes, None
