"""ScaleRoute: the boxes of a range of scales."""

import math

from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Varying
from . import stages
from .output import PLANNED_RANGES


@register
class ScaleRoute(Varying, Layer):
    """The boxes with a scale √(width · height) from low_scale to below high_scale, and what belongs to them: the same
    rows of each bottom.

    boxes (R, 5), rows of image, xmin, ymin, xmax, ymax, and others (R, ...); tops (M, ...), one for each bottom.
    Without such a box: the one whose scale is the nearest, by ratio, to √(low_scale · high_scale), or to the limit
    that is set, or to 256. No gradient. Errors: another number of tops; other rows. As in zhaoweicai/cascade-rcnn,
    src/caffe/layers/scale_route_layer.cpp.
    """

    field = "scale_route_param"
    bottoms, tops = (1, None), (1, None)
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        require.tops(self, len(self.spec.bottom))
        self.low = p.low_scale if p.HasField("low_scale") else 0.0
        self.high = p.high_scale if p.HasField("high_scale") else math.inf
        if not 0 <= self.low < self.high:
            found = f"{self.low:g} and {self.high:g}"
            raise self.error("bad scales", "low_scale", expected="0 <= low_scale < high_scale", found=found)
        bounds = [v for v in (self.low, self.high) if 0 < v < math.inf]
        self.middle = math.sqrt(bounds[0] * bounds[-1]) if bounds else 256.0

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.boxes(self, bottoms, 0)
        for i, shape in enumerate(bottoms):
            require.fits(self, bottoms, i, shape[:1] == bottoms[0][:1], f"{bottoms[0][0]} rows")
        planned = -(-bottoms[0][0] // PLANNED_RANGES)
        return [(planned, *shape[1:]) for shape in bottoms]

    def forward(self, x: list, y: list) -> None:
        arrays = [self.dev.download(array) for array in x]
        boxes = arrays[0].reshape(len(arrays[0]), -1)[:, 1:].astype(float)
        routed = stages.routed(boxes, self.low, self.high, self.middle)
        self.write_tops(y, [array[routed] for array in arrays])
