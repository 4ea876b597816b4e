"""ImageGtData: the data layer of MS-CNN."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.field_maps import NO_BOX, image_gt_shapes, image_gt_size
from .data import Feed
from .layer import Shape, register

TRANSFORMS = ("mirror", "mean_value")
WITHOUT_BOX = (0, 1, 1, 2, 2, 1, 1)  # the row of a batch without boxes: an ignored one
OBJECTS = 8  # of an image, as long as the data is not available


@register
class ImageGtData(Feed):
    """Images with objects, of a list of boxes, and the labels of maps of fields: data (N, C, H, W), C = 3, label
    maps (N, 6, h, w), one for each field_w, field_h and downsample_rate, and with output_gt_boxes the boxes (G, 7); N =
    batch_size, h = H / downsample_rate, rounded.

    An image is mirrored at random (transform_param), resized, scaled at random (do_multiple_scale, min_whaspect), and
    cut to crop_height × crop_width around a random object of it; less mean_value, times scale; 0 outside of the image.
    Channels of a label map: the label of the object that the cell's field overlaps most, if by an IoU above
    fg_threshold, else 0; its centre x and y, width and height in pixels; and that IoU, 1 outside of the image and in
    ignored regions. An object without a cell gets the one of its centre. Rows of boxes: image, xmin, ymin, xmax, ymax,
    label, ignored; G depends on the data. Random numbers depend on seed, layer and sample. Errors: another number of
    tops than maps, fields of transform_param other than mirror and mean_value. As in zhaoweicai/mscnn,
    src/caffe/layers/image_gt_data_layer.cpp.
    """

    field = "image_gt_data_param"
    files = ("source", "root_folder")
    tops = (2, None)
    _rows: np.ndarray  # the boxes of the batch that was fed

    def setup(self) -> None:
        p, maps = self.p, len(self.p.downsample_rate)
        for name in ("field_w", "field_h"):
            if len(getattr(p, name)) != maps:
                what, found = f"{name} has no value for each downsample_rate", len(getattr(p, name))
                raise self.error(what, name, expected=maps, found=found)
        for name in ("downsample_rate", "field_w", "field_h"):
            if not all(getattr(p, name)):
                i = list(getattr(p, name)).index(0)
                raise self.error(f"a bad {name}", name, i, expected="1 or more", found=0)
        if not maps:
            raise self.error("has no maps", remedy="set downsample_rate, field_w and field_h")
        self._check_tops(1 + maps + p.output_gt_boxes)
        self._check_sizes()
        for descriptor, _ in self.spec.transform_param.ListFields():
            if descriptor.name not in TRANSFORMS:
                remedy = "give scale in image_gt_data_param" if descriptor.name == "scale" else "leave it out"
                what = f"{descriptor.name} does not act on ImageGtData"
                raise self.outer_error(what, "transform_param", descriptor.name, remedy=remedy)
        means = self.spec.transform_param.mean_value
        if len(means) not in (0, 1, 3):
            what, found = "wrong number of mean_value", len(means)
            raise self.outer_error(what, "transform_param", "mean_value", 0, expected="1 or 3", found=found)

    def _check_tops(self, expected: int) -> None:
        count = len(self.spec.top)
        if count != expected:
            what = f"has {count} tops for {len(self.p.downsample_rate)} maps"
            kinds = "data, a label map each" + (", boxes" if self.p.output_gt_boxes else "")
            raise self.outer_error(what, "top", min(count, expected), expected=f"{expected}: {kinds}")

    def _check_sizes(self) -> None:
        p = self.p
        if p.coord_num != 4:
            raise self.error("a bad coord_num", "coord_num", expected=4, found=p.coord_num)
        for one, other in (("resize_width", "resize_height"), ("crop_width", "crop_height"), ("min_scale", "max_scale"),
                           ("min_whaspect", "max_whaspect")):  # fmt: skip
            for name, missing in ((one, other), (other, one)):
                if p.HasField(name) and not p.HasField(missing):
                    raise self.error(f"{name} without {missing}", name, remedy=f"set {missing} too, or neither")
        for name in ("resize_width", "resize_height"):
            if p.HasField(name) and not getattr(p, name):
                raise self.error(f"a bad {name}", name, expected="1 or more", found=0)
        if p.HasField("min_scale") and not 0 < p.min_scale <= p.max_scale:
            found = f"{p.min_scale} and {p.max_scale}"
            raise self.error("bad scales", "min_scale", expected="0 < min_scale <= max_scale", found=found)
        ratios = p.min_whaspect, p.max_whaspect
        if p.HasField("min_whaspect") and not 0 < ratios[0] <= ratios[1] < math.inf:
            found = f"{ratios[0]:g} and {ratios[1]:g}"
            raise self.error("bad ratios", "min_whaspect", expected="0 < min_whaspect <= max_whaspect", found=found)
        for name in ("scale", "fg_threshold", "min_gt_width", "min_gt_height"):
            if not math.isfinite(getattr(p, name)):
                raise self.error(f"{name} is no finite number", name, remedy=f"correct {name}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.varies = self.requires_host = self.p.output_gt_boxes
        self.varied_tops = frozenset({len(self.spec.top) - 1})
        return super().shapes(bottoms)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p = spec.image_gt_data_param
        size = image_gt_size(p, (0, 0))
        return image_gt_shapes(p, size, OBJECTS) if all(size) else []

    def feed(self, which: int, iteration: int, part: int) -> None:
        arrays = self.source.next()
        for field, array in zip(self._arrays, arrays, strict=True):
            field.set(which, array)
        if self.varies:
            rows = arrays[-1]
            found = rows[rows[:, 5] != NO_BOX]
            self._rows = found if len(found) else np.array([WITHOUT_BOX], rows.dtype)

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        if y[-1].shape != self._rows.shape:
            y = self.resize([*(top.shape for top in y[:-1]), self._rows.shape])
        for top, field in zip(y[:-1], self._arrays, strict=False):
            field.copy_to(top)
        self.dev.upload(y[-1], self._rows)
