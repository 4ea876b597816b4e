"""RoIData: the data layer of Fast and Faster R-CNN."""

from __future__ import annotations

from typing import Self

from ..devices.context import ExecutionContext
from ..devices.protocol import Device
from .data import Feed
from .layer import Layer, Shape, register

IN_FAST_RCNN = 6  # tops: data, rois, labels, bbox_targets, bbox_inside_weights, bbox_outside_weights
ROIS = 128  # of a batch of Fast R-CNN


@register
class RoIData(Feed):
    """An image with its objects, of a COCO JSON file or a list of PASCAL VOC annotations: data (1, 3, H, W), im_info
    (1, 3), height, width and scale, gt_boxes (G, 5), x1, y1, x2, y2 and label, and optionally the objects in SSD's form
    (1, 1, G, 8); all are blobs (N, ...) with N = 1.

    Images are resized to short_side and max_size, and get mean_value, scale and mirror of transform_param; boxes
    follow. G is the largest number of objects of an image: rows without one have the label -1. Where images differ in
    size, H and W vary from pass to pass. Without a source the layer has shapes only. As the Python layer
    roi_data_layer.layer.RoIDataLayer of rbgirshick/py-faster-rcnn lib/roi_data_layer, which gets its data from a
    program. Its six tops for Fast R-CNN, which need proposals of another program, have shapes only.
    """

    field = "roi_data_param"
    files = ("source", "root_folder", "label_file")
    tops = (3, 6)
    batched = False

    _size: tuple[int, ...] = ()  # height and width of the images of the last pass

    def setup(self) -> None:
        count = len(self.spec.top)
        if count not in (3, 4, IN_FAST_RCNN):
            raise self.outer_error(f"has {count} tops", "top", count, expected="3, 4 or 6")
        if count == IN_FAST_RCNN and self.p.source:
            what = "cannot read the proposals that its six tops need"
            raise self.error(what, "source", expected="3 tops: data, im_info, gt_boxes")
        self.reads_source = bool(self.p.source)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.source is None:
            return without_data(self)
        self.varies = self.requires_host = getattr(self.source, "varies", False)
        return super().shapes(bottoms)

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
            if len(self.spec.top) == IN_FAST_RCNN:
                remedy = "its six tops need proposals of another program, which are not read"
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


def without_data(layer: Layer) -> list[Shape]:
    """The shapes of RoIData without its source."""
    p, count = layer.p, len(layer.spec.top)
    image = (3, p.short_side or p.max_size, p.max_size)
    if count < IN_FAST_RCNN:
        return [(1, *image), (1, 3), (1, 5), (1, 1, 1, 8)][:count]
    targets = (ROIS, 4 * (p.num_classes or 21))
    return [(2, *image), (ROIS, 5), (ROIS,), targets, targets, targets]
