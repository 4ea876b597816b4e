"""ResizeNearestNeighbor: images of another size, of pixels of the first."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...layers.base import require, sliding
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

FORMATS = {"NHWC": (1, 2), "NCHW": (2, 3)}
CENTERS = ("align_corners", "half_pixel_centers", "half_pixel_onnx")


@register
class ResizeNearestNeighbor(ArrayLayer):
    """Images of another size, each pixel one of x: x (N, H, W, C) → y (N, OH, OW, C), or with data_format "NCHW" x
    (N, C, H, W) → y (N, C, OH, OW). OH is output_height, or ⌊H · scale_height⌋, and so OW.

    The row i of y is the row ⌊i H / OH⌋ of x; align_corners: i (H - 1) / (OH - 1), rounded; half_pixel_centers:
    ⌊(i + 1/2) H / OH⌋; half_pixel_onnx: ⌊(i + 1/2) H / OH - 1/2⌋, at least 0. Errors: two of these, another format, no
    size. As in foss-for-synopsys-dwc-arc-processors/synopsys-caffe,
    src/caffe/layers/resize_nearest_neighbor_layer.cpp, which has no gradient.
    """

    field = "resize_nearest_neighbor_param"
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        p = self.p
        require.value(self, "data_format", p.data_format in FORMATS, "NHWC or NCHW")
        if len(named := [name for name in CENTERS if getattr(p, name)]) > 1:
            raise self.error(f"{named[0]} together with {named[1]}", named[1], remedy="keep one of them")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        shape, p = list(bottoms[0]), self.p
        self.rows: list[tuple[int, np.ndarray]] = []
        for axis, side in zip(FORMATS[p.data_format], ("height", "width"), strict=True):
            sized = p.HasField(f"output_{side}")
            scaled = math.floor(np.float32(shape[axis]) * np.float32(getattr(p, f"scale_{side}")))
            size = getattr(p, f"output_{side}") if sized else scaled
            if not 1 <= size <= sliding.LARGEST:
                name = f"output_{side}" if sized else f"scale_{side}"
                raise self.error(f"a bad {side} of the top", name, expected=f"1 to {sliding.LARGEST}", found=size)
            self.rows.append((axis, self._sources(shape[axis], size)))
            shape[axis] = size
        return [tuple(shape)]

    def _sources(self, before: int, after: int) -> np.ndarray:
        """Which rows of x are those of y, in float32 as the fork computes them."""
        p, at = self.p, np.arange(after, dtype=np.float32)
        aligned = p.align_corners and after > 1
        scale = np.float32(before - 1) / np.float32(after - 1) if aligned else np.float32(before) / np.float32(after)
        if p.half_pixel_onnx or p.half_pixel_centers:
            at = np.floor((at + np.float32(0.5)) * scale - np.float32(0.5 if p.half_pixel_onnx else 0))
        else:
            at = np.floor(at * scale + np.float32(0.5)) if p.align_corners else np.floor(at * scale)
        return np.clip(at, 0, before - 1).astype(int)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        y = x[0]
        for axis, rows in self.rows:
            y = xp.take(y, xp.asarray(rows), axis)
        return y

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = dy[0]
        for axis, rows in reversed(self.rows):
            sums = xp.asarray((np.arange(x[0].shape[axis])[:, None] == rows).astype(slopes.dtype.name))
            slopes = xp.moveaxis(xp.tensordot(sums, slopes, (1, axis)), 0, axis)
        return slopes
