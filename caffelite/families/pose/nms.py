"""Nms: the peaks of heat maps."""

from types import ModuleType
from typing import Any

import numpy as np

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

NEAR = 3  # pixels around a peak whose mean is its place


@register
class Nms(ArrayLayer):
    """The peaks of the first num_parts (15) channels of x (N, C, H, W): y (N, num_parts, max_peaks + 1, 3), of each map
    the number of peaks in row 0, and then x, y and value of the first max_peaks (20), row by row of the image.

    A peak is above threshold (0.5) and above its eight neighbors, and not on the border; its place is the mean of the
    pixels up to 3 away, except row and column 0, weighed by values above 0. num_peak has no effect. No gradient.
    Errors: fewer channels than num_parts. As in CMU-Perceptual-Computing-Lab/caffe_rtpose,
    src/caffe/cpm/layers/nms_layer.cu.
    """

    field = "nms_param"
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "num_parts", "max_peaks")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        require.fits(self, bottoms, 0, bottoms[0][1] >= self.p.num_parts, f"{self.p.num_parts} channels or more")
        return [(bottoms[0][0], self.p.num_parts, self.p.max_peaks + 1, 3)]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        maps = x[0][:, : self.p.num_parts]
        tops = np.zeros((*maps.shape[:2], self.p.max_peaks + 1, 3))
        for i in np.ndindex(tops.shape[:2]):
            values = np.asarray(maps[i].tolist()) if xp is not np else maps[i].astype(float)
            tops[i] = self._rows(values)
        return xp.asarray(tops)

    def _rows(self, values: np.ndarray) -> np.ndarray:
        rows = np.zeros((self.p.max_peaks + 1, 3))
        inner = values[1:-1, 1:-1]
        peak = inner > self.p.threshold
        for dy, dx in np.argwhere(np.ones((3, 3))) - 1:
            if (dy or dx) and inner.size:
                peak &= inner > values[1 + dy : values.shape[0] - 1 + dy, 1 + dx : values.shape[1] - 1 + dx]
        positions = np.argwhere(peak) + 1
        rows[0, 0] = len(positions)
        for row, (y, x) in zip(rows[1:], positions, strict=False):
            top, left = max(1, y - NEAR), max(1, x - NEAR)
            near = np.maximum(values[top : y + NEAR + 1, left : x + NEAR + 1], 0)
            across, down = np.arange(near.shape[1]) + left, np.arange(near.shape[0]) + top
            total = near.sum()
            row[:] = (near.sum(0) @ across / total, near.sum(1) @ down / total, values[y, x])
        return rows
