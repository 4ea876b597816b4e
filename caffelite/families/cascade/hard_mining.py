"""HardMining: the boxes of the highest losses."""

import math

import numpy as np

from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from . import stages


@register
class HardMining(Layer):
    """The boxes of the highest losses, and what belongs to them: losses (R), boxes (R, 5), image, x1, y1, x2, y2, and
    others (R, ...) → the chosen rows (M, ...) of each bottom but the first, M = min(R, num_image · num_roi_per_image).

    Of each image the num_roi_per_image boxes of the highest losses; where images have fewer, the highest of the other
    images' fill the sample. Rows keep their order. NaN is the lowest loss. No gradients. Errors: other tops than
    bottoms, other rows, a box of no image. Source: zhaoweicai/cascade-rcnn src/caffe/layers/hard_mining_layer.cpp.
    """

    field = "hard_mining_param"
    bottoms, tops = (2, None), (1, None)
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        for name in ("num_roi_per_image", "num_image"):
            require.value(self, name, getattr(self.p, name), "1 or more")
        if len(self.spec.top) != len(self.spec.bottom) - 1:
            expected, found = len(self.spec.bottom) - 1, len(self.spec.top)
            raise self.error("has other tops than bottoms", "top", 0, expected=expected, found=found, outer=True)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.boxes(self, bottoms, 1)
        count = bottoms[1][0]
        require.fits(self, bottoms, 0, math.prod(bottoms[0]) == count, f"{count} losses")
        for i, shape in enumerate(bottoms):
            require.fits(self, bottoms, i, shape[:1] == (count,), f"{count} rows")
        self.count = min(count, self.p.num_image * self.p.num_roi_per_image)
        return [(self.count, *shape[1:]) for shape in bottoms[1:]]

    def forward(self, x: list, y: list) -> None:
        losses, *arrays = (self.dev.download(array) for array in x)
        images = arrays[0].reshape(len(arrays[0]), -1)[:, 0]
        wrong = images[~((images >= 0) & (images < self.p.num_image))]
        if len(wrong):
            expected = f"0 to {self.p.num_image - 1}, by num_image"
            raise self.error("a box of no image", "num_image", expected=expected, found=f"{wrong[0]:g}")
        losses = losses.reshape(-1).astype(float)
        hardest = stages.hardest(
            np.where(np.isnan(losses), -np.inf, losses), images, self.p.num_roi_per_image, self.count
        )
        for array, top in zip(arrays, y, strict=True):
            self.dev.upload(top, array[hardest])
