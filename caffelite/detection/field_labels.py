"""Labels of fields of maps for Cascade R-CNN, and the sizes of the images and maps.

A field is a box of a fixed size around the centre of each cell of a map. Boxes are (xmin, ymin, xmax, ymax) in pixels;
both corners belong to a box. A label map (6, H, W) has for each cell the class, 0 for background; centre x and y, width
and height of the matched object; and the overlap of the field with its object, 1 where the cell is in no loss. Source:
zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from .boxes import areas, intersections, overlaps, rounded

CHANNELS = 6  # of a label map
MULTIPLE = 32  # of the sides of images


@dataclass(frozen=True)
class Objects:
    """Objects of an image: boxes (G, 4), classes (G) from 1 on, ignored and difficult (G); and regions (M, 4) in which
    nothing is background."""

    boxes: np.ndarray
    classes: np.ndarray
    ignored: np.ndarray
    difficult: np.ndarray
    regions: np.ndarray


def in_multiples(side: float) -> int:
    """The nearest multiple of 32."""
    return rounded(side / MULTIPLE) * MULTIPLE


def template(param: pb.DetectionDataParameter, size: tuple[int, int], ratio: float = 1.0) -> tuple[int, int]:
    """Height and width of the images of a batch; (0, 0) where nothing decides them.

    size: height and width of the first image of the batch, which decides whether they stand or lie; (0, 0): unknown.
    ratio: of template_ratio.
    """
    if param.crop_height and param.crop_width:
        return param.crop_height, param.crop_width
    if param.resize_height and param.resize_width:
        return param.resize_height, param.resize_width
    short, long = param.crop_short_size, param.crop_long_size
    if not (short and long) and param.short_size and param.long_size:
        short, long = (in_multiples(side * ratio) for side in (param.short_size, param.long_size))
    if short and long:
        return (long, short) if size[0] >= size[1] else (short, long)
    if param.HasField("resize_ratio"):
        return rounded(size[0] * param.resize_ratio), rounded(size[1] * param.resize_ratio)
    return size


def map_size(size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Rows and columns of the map of images of this height and width."""
    return rounded(size[0] / stride), rounded(size[1] / stride)


def label_maps(
    param: pb.DetectionDataParameter, objects: Objects, window: tuple[int, int, int, int], maps: list[np.ndarray]
) -> None:
    """Fills the label map (6, H, W) of each field.

    A cell has the class of the object that its field overlaps most, if by more than fg_threshold, 0 where that is
    ignored. Of the others, those whose fields the regions cover by ignore_fg_threshold or more are in no loss, nor are
    those outside of the image. An object without a cell gets that of its centre, on the map whose fields overlap it
    most, from pickup_iou_thr on. window: where the image is in the batch: top, left, height, width.
    """
    count = len(objects.boxes)
    best, best_map, matched = np.zeros(count), np.zeros(count, int), np.zeros(count, bool)
    for number, (stride, out) in enumerate(zip(param.stride, maps, strict=True)):
        out[:] = 0
        fields = _fields(out.shape[1:], stride, (param.field_w[number], param.field_h[number]))
        counted = _counted(param, fields, window, stride, out.shape[1:])
        table = overlaps(fields, objects.boxes, pixels=True) * counted[:, None]
        most = table.max(1, initial=0)
        covered = _coverage(fields, objects.regions) >= param.ignore_fg_threshold
        found = most > param.fg_threshold
        out[5] = np.where(~counted | (covered & ~found), 1, most).reshape(out.shape[1:])
        if not count:
            continue
        highest = table.max(0, initial=0)
        best_map[highest > best] = number
        best = np.maximum(best, highest)
        nearest = table.argmax(1)[found]
        matched[nearest] = True
        labels = np.where(objects.ignored, 0, objects.classes)
        out[:5].reshape(5, -1)[:, found] = _targets(labels[nearest], objects.boxes[nearest])
    for i in np.flatnonzero(~matched & ~objects.ignored & (best >= param.pickup_iou_thr)):
        out, box = maps[best_map[i]], objects.boxes[i]
        x, y = np.floor((box[:2] + box[2:]) / 2 / param.stride[best_map[i]]).astype(int)
        y, x = min(max(0, y), out.shape[1] - 1), min(max(0, x), out.shape[2] - 1)
        if not out[0, y, x] > 0:
            out[:5, y, x] = _targets(objects.classes[i : i + 1], box[None])[:, 0]
            out[5, y, x] = best[i]


def _fields(shape: tuple[int, ...], stride: int, field: tuple[int, int]) -> np.ndarray:
    """The fields (H · W, 4) of a map."""
    cells = np.meshgrid(np.arange(shape[1]) + 0.5, np.arange(shape[0]) + 0.5)
    centres, half = np.stack(cells, -1).reshape(-1, 2) * stride, np.array(field) / 2
    return np.concatenate([centres - half, centres + half], 1)


def _counted(
    param: pb.DetectionDataParameter, fields: np.ndarray, window: tuple[int, ...], stride: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Which cells (H · W) are in the image, with fields that do not reach too far out of it."""
    top, left, height, width = (rounded(side / stride) for side in window)
    inside = np.zeros(shape, bool)
    inside[top : top + height, left : left + width] = True
    top, left, height, width = window
    if param.HasField("anchor_ignore_margin_ratio"):
        margin = param.anchor_ignore_margin_ratio * (fields[:, 2:] - fields[:, :2]) / 2
        within = (fields[:, :2] >= (left, top) - margin) & (fields[:, 2:] < (left + width, top + height) + margin)
        return inside.reshape(-1) & within.all(1)
    if param.HasField("anchor_ignore_iou_thr"):
        image = np.array([[left, top, left + width, top + height]], float)
        return inside.reshape(-1) & (_coverage(fields, image) >= param.anchor_ignore_iou_thr)
    return inside.reshape(-1)


def _coverage(fields: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """The sum (F) of the shares of each field that regions cover."""
    return (intersections(fields, regions, True) / areas(fields, True)[:, None]).sum(1)


def _targets(labels: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The first channels (5, K) of labels: class, centre, width and height of boxes (K, 4)."""
    return np.stack([labels, *((boxes[:, :2] + boxes[:, 2:]) / 2).T, *(boxes[:, 2:] - boxes[:, :2] + 1).T])
