"""Downsample: flows of another size, some pixels of which are unknown."""

from __future__ import annotations

import numpy as np

from ...layers.layer import Shape, register
from .resizing import Resized, triangle


@register
class Downsample(Resized):
    """Flows of another size, some pixels of which may be unknown, NaN: x (N, C, H, W) → y (N, C, OH, OW), OH and OW
    top_height and top_width, or those of a second bottom.

    The corners of x and y coincide. A pixel of y is a weighted mean of those of x that are known, by a triangle as wide
    as the ratio of sizes; NaN where the unknown ones have more than half the weight of the others. No gradients. The
    host computes it. Errors: a size below 2. As in lmb-freiburg/flownet2, src/caffe/layers/downsample_layer.cu.
    """

    field = "downsample_param"
    differentiable = False
    size_fields = ("top_height", "top_width")
    least = 2

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        self._weights = [self._axis(*sizes) for sizes in zip(bottoms[0][2:], self.size, strict=True)]
        return tops

    @staticmethod
    def _axis(before: int, after: int) -> np.ndarray:
        if before == after:
            return np.eye(after)
        ratio = (before - 1) / (after - 1)
        distances = np.arange(after)[:, None] * ratio - np.arange(before)
        return triangle(distances / ratio) if ratio else np.ones((after, 1))

    def forward(self, x: list, y: list) -> None:
        rows, columns = self._weights
        values = self.dev.download(x[0]).astype(float)
        known = ~np.isnan(values)
        total, unknown = (rows @ mask.astype(float) @ columns.T for mask in (known, ~known))
        sums = rows @ np.where(known, values, 0) @ columns.T
        means = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
        self.dev.upload(y[0], np.where(unknown > total / 2, np.nan, means))
