"""The grids of labels that DetectNet learns: which cells an object covers, and where its corners are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ... import caffelite_pb2 as pb

FIELDS = 8  # of a cell before the coverages of classes
EMPTY = 1e-7  # an area


@dataclass
class Object:
    """A box x, y, width, height in pixels, and its class in the file."""

    x: float
    y: float
    width: float
    height: float
    label: int


def overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


class Grid:
    """Cells of stride × stride pixels of an image."""

    def __init__(self, p: pb.DetectNetGroundTruthParameter):
        self.p = p
        self.classes = {pair.src: pair.dst for pair in p.object_class} or {1: 0}
        self.size = p.image_size_y // p.stride, p.image_size_x // p.stride
        self.channels = FIELDS + max(self.classes.values()) + 1

    def _kept(self, item: Object) -> Object | None:
        """The object, cut at the edges of the image; None if it does not count."""
        if self.p.crop_bboxes:
            width = overlap(item.x, item.x + item.width, 0, self.p.image_size_x)
            height = overlap(item.y, item.y + item.height, 0, self.p.image_size_y)
            item = Object(max(item.x, 0), max(item.y, 0), width, height, item.label)
        return item if item.label in self.classes and item.width * item.height >= EMPTY else None

    def _side(self, size: float) -> float:
        """Of the region that an object covers, along an axis."""
        shrunk = size * self.p.scale_cvg
        if self.p.gridbox_type == self.p.GRIDBOX_MIN:
            return min(size, max(self.p.min_cvg_len, shrunk))
        return min(self.p.max_cvg_len, shrunk)

    def labels(self, objects: list[Object]) -> np.ndarray:
        """Channels: foreground; left, top, right, bottom less the cell's; 1 / width, 1 / height; the cell's area by the
        region's, or 1; then the coverage of each class. Later objects replace earlier ones."""
        labels = np.zeros((self.channels, *self.size))
        for item in filter(None, map(self._kept, objects)):
            self._add(labels, item)
        return labels

    def _add(self, labels: np.ndarray, item: Object) -> None:
        stride = self.p.stride
        wide, high = self._side(item.width), self._side(item.height)
        left, top = item.x + (item.width - wide) / 2, item.y + (item.height - high) / 2
        norm = stride * stride / (wide * high) if wide * high else math.inf
        rows = range(max(0, math.floor(top / stride)), min(self.size[0], math.ceil((top + high) / stride)))
        columns = range(max(0, math.floor(left / stride)), min(self.size[1], math.ceil((left + wide) / stride)))
        for row, column in ((row, column) for row in rows for column in columns):
            x, y = column * stride, row * stride
            area = overlap(left, left + wide, x, x + stride) * overlap(top, top + high, y, y + stride)
            if area / stride**2 <= EMPTY:
                continue
            cell = labels[:, row, column]
            corners = item.x - x, item.y - y, item.x + item.width - x, item.y + item.height - y
            cell[:FIELDS] = 1, *corners, 1 / item.width, 1 / item.height, max(0 if self.p.obj_norm else 1, norm)
            cell[FIELDS:] = 0
            cell[FIELDS + self.classes[item.label]] = 1
