"""Pooling over boxes of feature maps, for detectors: ROIPooling, PSROIPooling, ROIAlign."""

import math

from ...devices.detection_ops import RegionPooling
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register


class RegionPooled(Layer):
    """The base class: x (N, C, H, W) and boxes (R, 5) → (R, C', PH, PW). A box is (image, x1, y1, x2, y2) in pixels of
    the net's input; both corners belong to it."""

    bottoms = (2, 2)
    constant_bottoms = frozenset({1})
    needs_images = True
    method = ""
    backward_reads_bottoms = (1,)
    backward_reads_tops = False

    def setup(self) -> None:
        require.value(self, "spatial_scale", 0 < self.p.spatial_scale < math.inf, "a finite number above 0")
        self.pad = getattr(self.p, "pad_ratio", 0.0)
        if not 0 <= self.pad < math.inf:
            raise self.error("a bad pad_ratio", "pad_ratio", expected="0 or more", found=f"{self.pad:g}")

    def grid(self, channels: int) -> Shape:
        """(C', PH, PW)."""
        raise NotImplementedError

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        x, rois = bottoms
        require.images(self, bottoms)
        require.boxes(self, bottoms, 1)
        self.x_shape, self.y_shape = x, (rois[0], *self.grid(x[1]))
        return [self.y_shape]

    def build(self, dev: Device) -> None:
        op = RegionPooling(self.method, self.x_shape, self.y_shape, self.p.spatial_scale, self.pad)
        self.op = dev.build(op)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], x[1], y[0], self.saved.get("index"))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if dx[0] is not None:
            self.op.backward(dy[0], x[1], self.saved.get("index"), dx[0])

    def faults(self) -> str | None:
        row = int(self.dev.download(self.op.bad)[0])
        what = f'"{self.spec.bottom[0]}" has images 0 to {self.x_shape[0] - 1}'
        return f'box {row - 1} of bottom "{self.spec.bottom[1]}" is of no image; {what}' if row else None


@register
class ROIPooling(RegionPooled):
    """The largest number of each of pooled_h × pooled_w cells of each box: x (N, C, H, W), boxes (R, 5) → (R, C,
    pooled_h, pooled_w).

    pad_ratio (0) enlarges each side of a box by this share of its size. Corners times spatial_scale are rounded to
    pixels, halves away from 0; cells overlap by up to a pixel; an empty cell gives 0. Errors: a box of an image that x
    has not. Source: Girshick 2015 (Fast R-CNN), cells as in intel/caffe src/caffe/layers/roi_pooling_layer.cpp;
    pad_ratio as in zhaoweicai/mscnn and zhaoweicai/cascade-rcnn, src/caffe/layers/roi_pooling_layer.cpp.
    """

    field = "roi_pooling_param"
    method = "MAX"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "pooled_h", "pooled_w")

    def grid(self, channels: int) -> Shape:
        return channels, self.p.pooled_h, self.p.pooled_w

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        self.saved_shapes["index"] = (self.y_shape, "int32")
        return tops


@register
class PSROIPooling(RegionPooled):
    """The mean of each of group_size × group_size cells of each box, a cell from channels of its own: x (N, C, H, W), C
    = output_dim · group_size², boxes (R, 5) → (R, output_dim, group_size, group_size).

    Cell (i, j) of output c reads channel (c · group_size + i) · group_size + j. Corners are rounded, then multiplied by
    spatial_scale; a box is at least 0.1 wide and high there; an empty cell gives 0. Errors: another number of channels;
    a box of an image that x has not. Source: Dai et al. 2016 (R-FCN), cells as in intel/caffe
    src/caffe/layers/psroi_pooling_layer.cu.
    """

    field = "psroi_pooling_param"
    method = "POSITION"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "output_dim", "group_size")

    def grid(self, channels: int) -> Shape:
        outputs, group = self.p.output_dim, self.p.group_size
        if channels != outputs * group * group:
            expected = f"{outputs * group * group} channels, output_dim × group_size²"
            raise self.bottom_error(0, "does not fit", expected=expected, found=channels)
        return outputs, group, group


@register
class ROIAlign(RegionPooled):
    """Bilinear interpolation at the corners of pooled_h × pooled_w cells of each box: x (N, C, H, W), boxes (R, 5) →
    (R, C, pooled_h + 1, pooled_w + 1). A mean or maximum of 2 × 2 neighbors, by a Pooling layer, then gives the cells.

    pad_ratio (0) enlarges each side of a box by this share of its size. A corner outside of the map, and a box without
    extent, give 0. Errors: a box of an image that x has not. Source: He et al. 2017, points as in zhaoweicai/mscnn
    src/caffe/layers/roi_align_layer.cu.
    """

    field = "roi_pooling_param"
    method = "ALIGN"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "pooled_h", "pooled_w")

    def grid(self, channels: int) -> Shape:
        return channels, self.p.pooled_h + 1, self.p.pooled_w + 1
