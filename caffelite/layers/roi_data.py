"""RoIData: the data layer of Fast and Faster R-CNN."""

from __future__ import annotations

from typing import Self

from .. import caffelite_pb2 as pb
from ..devices.context import ExecutionContext
from ..devices.protocol import Device
from .data import Feed
from .layer import Shape, register

IN_FAST_RCNN = (3, 5, 6)  # tops: data, rois, labels, bbox_targets, weights once, or inside and outside
ROIS = 128  # of a batch of Fast R-CNN


def for_fast_rcnn(spec: pb.LayerParameter) -> bool:
    """Whether the tops are those of Fast R-CNN."""
    return spec.top[1:2] == ["rois"] or len(spec.top) > 4


@register
class RoIData(Feed):
    """An image with its objects, of COCO JSON, PASCAL VOC or a database of AnnotatedDatum: data (1, 3, H, W), im_info
    (1, 3), height, width and scale, gt_boxes (G, 5), x1, y1, x2, y2 and label, and optionally the objects in SSD's form
    (1, 1, G, 8); all are blobs (N, ...) with N = 1.

    Images are resized to short_side and max_size, and get mean_value, scale and mirror of transform_param; boxes
    follow. G is the largest number of objects of an image: rows without one have the label -1. Where images differ in
    size, H and W vary from pass to pass. Without a source the layer has shapes only. As the Python layer
    roi_data_layer.layer.RoIDataLayer of rbgirshick/py-faster-rcnn lib/roi_data_layer, which gets its data from a
    program. Its tops for Fast R-CNN, the second of which is named rois, need proposals of another program and have
    shapes only: data, rois, labels, and optionally offsets and one or two blobs of weights.
    """

    field = "roi_data_param"
    files = ("source", "root_folder", "label_file")
    tops = (3, 6)
    batched = False

    _size: tuple[int, ...] = ()  # height and width of the images of the last pass

    def setup(self) -> None:
        count = len(self.spec.top)
        self.fast = for_fast_rcnn(self.spec)
        allowed = IN_FAST_RCNN if self.fast else (3, 4)
        if count not in allowed:
            expected = " or ".join(map(str, allowed))
            raise self.outer_error(f"has {count} tops", "top", min(count, *allowed), expected=expected)
        if self.fast and self.p.source:
            what = "cannot read the proposals that its tops need"
            raise self.error(what, "source", expected="3 tops: data, im_info, gt_boxes")
        self.reads_source = bool(self.p.source)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.source is None:
            return self.shapes_without_data(self.spec)
        self.varies = self.requires_host = getattr(self.source, "varies", False)
        return super().shapes(bottoms)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p, count = spec.roi_data_param, len(spec.top)
        image = (3, p.short_side or p.max_size, p.max_size)
        if not for_fast_rcnn(spec):
            return [(1, *image), (1, 3), (1, 5), (1, 1, 1, 8)][:count]
        targets = (ROIS, 4 * (p.num_classes or 21))
        return [(2, *image), (ROIS, 5), (ROIS,), targets, targets, targets][:count]

    def bound(self, dev: Device, params: list, context: ExecutionContext) -> Self:
        copied = super().bound(dev, params, context)
        if copied.source is not None:
            copied._size = tuple(copied.source.shapes[0][2:])
        return copied

    def build(self, dev: Device) -> None:
        if self.source is not None:
            super().build(dev)

    def feed(self, which: int, iteration: int, part: int) -> None:
        if self.source is None:
            remedy = 'set roi_data_param { source: "train.json" }'
            if self.fast:
                remedy = "its tops need proposals of another program, which are not read"
            raise self.error("has no data", "source", remedy=remedy)
        arrays = self.source.next()
        for field, array in zip(self._arrays, arrays, strict=True):
            field.set(which, array)
        self._next = arrays[0], (int(arrays[1][0, 0]), int(arrays[1][0, 1]))

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        pixels, (height, width) = self._next
        if (height, width) != self._size:
            self._size = height, width
            y = self.resize([(1, 3, height, width), *(top.shape for top in y[1:])])
        self.dev.upload(y[0], pixels.reshape(-1)[: 3 * height * width].reshape(1, 3, height, width))
        for top, field in zip(y[1:], self._arrays[1:], strict=True):
            field.copy_to(top)
