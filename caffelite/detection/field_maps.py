"""Maps of fields (MS-CNN, Cascade R-CNN): labels, targets and boxes of the cells of a map.

A field is a box of a fixed size around the centre of each cell; boxes are (xmin, ymin, xmax, ymax) in pixels. A label
map (6, H, W) has for each cell: the label, 0 for background; centre x and y, width and height of the matched object;
and the IoU of the field with the object that it overlaps most, 1 where the cell is in no loss. Sources: Cai et al. 2016
and 2018; zhaoweicai/mscnn src/caffe/layers/image_gt_data_layer.cpp and detection_loss_layer.cpp;
zhaoweicai/cascade-rcnn src/caffe/util/bbox_util.cpp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import caffelite_pb2 as pb
from .boxes import coverages, overlaps, rounded

IGNORED_COVER = 0.4  # a field is in no loss where ignored regions cover this share of it, each region's part added
LEAST_OVERLAP = 0.2  # an object without a field is assigned the cell of its centre where its largest IoU is this much
LEAST_SIDE = 2.0  # of an object, in pixels, as a target
LABEL_CHANNELS = 6
BOX_ROW = 7  # image of the batch, xmin, ymin, xmax, ymax, label, ignored
NO_BOX = -1.0  # the label of a row of boxes that is none


class Field(NamedTuple):
    """Sides of a field, and of a cell of its map, in pixels."""

    width: float
    height: float
    stride: float


class Objects(NamedTuple):
    """Objects of an image: boxes (M, 4), labels (M) from 1 on, ignored (M); and regions (R, 4) that are ignored."""

    boxes: np.ndarray
    labels: np.ndarray
    ignored: np.ndarray
    regions: np.ndarray


def fields_of(param: pb.ImageGtDataParameter) -> list[Field]:
    """The field of each map."""
    return [Field(*sides) for sides in zip(param.field_w, param.field_h, param.downsample_rate, strict=True)]


def template_size(param: pb.ImageGtDataParameter, listed: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the images of a batch. listed: of the image that decides without resize_width and crop_width,
    or 0."""
    height, width = (param.resize_height, param.resize_width) if param.resize_width else listed
    return param.crop_height or height, param.crop_width or width


def shapes_of(param: pb.ImageGtDataParameter, size: tuple[int, int], objects: int) -> list[tuple[int, ...]]:
    """The shapes of all tops. size: height and width of images; objects: the most of an image."""
    n = param.batch_size
    sides = [[max(1, rounded(side / field.stride)) for side in size] for field in fields_of(param)]
    boxes = [(max(1, n * objects), BOX_ROW)] if param.output_gt_boxes else []
    return [(n, 3, *size), *((n, LABEL_CHANNELS, *s) for s in sides), *boxes]


def centres(rows: int, columns: int, stride: float) -> np.ndarray:
    """The centres (2, rows, columns) of the cells of a map, x and y, in pixels."""
    return np.stack(np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)) * stride


def label_maps(
    fields: list[Field], objects: Objects, windows: list[tuple[int, int, int, int]], threshold: float, maps: list
) -> None:
    """Fills the label map (6, H, W) of each field.

    A cell has the label of the object that its field overlaps most, if by more than ``threshold``; of an ignored
    object, label 0. An object without a cell is then assigned the cell of its centre, in the map whose fields overlap
    it most. windows: the cells of each map that the image covers: top, left, bottom, right; others have IoU 1.
    """
    count = len(objects.boxes)
    best, best_map = np.zeros(count), np.zeros(count, int)
    matched = np.zeros(count, bool)
    for number, (field, window, out) in enumerate(zip(fields, windows, maps, strict=True)):
        overlap, counted = _field_overlaps(field, objects, window, out.shape[1:])
        out[:] = 0
        out[5] = np.where(counted, overlap.max(1, initial=0).reshape(counted.shape), 1)
        if not count:
            continue
        overlap = overlap[counted.reshape(-1)]
        most = overlap.max(0, initial=0)
        best_map[most > best] = number
        best = np.maximum(best, most)
        nearest = overlap.argmax(1)
        chosen = overlap.max(1) > threshold
        matched[nearest[chosen]] = True
        places = np.flatnonzero(counted)[chosen]
        cells = np.unravel_index(places, counted.shape)
        labels = np.where(objects.ignored, 0, objects.labels)
        _assign(out, cells, objects.boxes[nearest[chosen]], labels[nearest[chosen]])
    for i in np.flatnonzero(~matched & ~objects.ignored & (best >= LEAST_OVERLAP)):
        out, box = maps[best_map[i]], objects.boxes[i]
        x, y = np.floor((box[:2] + box[2:]) / 2 / fields[best_map[i]].stride).astype(int)
        cell = min(max(0, y), out.shape[1] - 1), min(max(0, x), out.shape[2] - 1)
        if not out[0][cell] > 0:
            _assign(out, cell, box, objects.labels[i])


def _field_overlaps(
    field: Field, objects: Objects, window: tuple[int, int, int, int], shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """The IoU (H·W, M) of fields with objects, and (H, W) which cells can be in the loss."""
    middle = centres(*shape, field.stride).reshape(2, -1).T
    half = np.array([field.width, field.height]) / 2
    boxes = np.concatenate([middle - half, middle + half], 1)
    counted = np.zeros(shape, bool)
    top, left, bottom, right = window
    counted[top:bottom, left:right] = True
    counted &= (coverages(boxes, objects.regions).sum(1) < IGNORED_COVER).reshape(shape)
    return overlaps(boxes, objects.boxes), counted


def _assign(out: np.ndarray, cells: tuple, boxes: np.ndarray, labels: np.ndarray | float) -> None:
    """Writes labels (K), centres and sides of boxes (K, 4) into cells of a label map."""
    values = [labels, *((boxes[..., :2] + boxes[..., 2:]) / 2).T, *(boxes[..., 2:] - boxes[..., :2]).T]
    for channel, value in enumerate(values):
        out[(channel, *cells)] = value


def encode(targets: np.ndarray, field: Field) -> np.ndarray:
    """The offsets (..., 4, H, W) of boxes with centre and sides (..., 4, H, W) from the fields of their cells."""
    size = np.array([field.width, field.height]).reshape(2, 1, 1)
    rows, columns = targets.shape[-2:]
    moved = (targets[..., :2, :, :] - centres(rows, columns, field.stride)) / size
    return np.concatenate([moved, np.log(np.maximum(targets[..., 2:, :, :], LEAST_SIDE) / size)], -3)


def bounds(ratios: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The least and largest offsets (4). ratios: the largest ratio of sides to those of the field, and the inverse of
    the largest offset of a centre."""
    largest = np.array([1 / ratios[1]] * 2 + [np.log(ratios[0])] * 2)
    return -largest, largest


def overlaps_of_pairs(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> np.ndarray:
    """The IoU (N) of each box a (N, 4) with the box b (N, 4); 0 where a side of the intersection is less than
    ``least`` or a box is empty."""
    sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
    common = np.where((sides > 0).all(1) & (sides >= least).all(1), sides.prod(1), 0)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
    return np.divide(common, union, out=np.zeros(len(a)), where=common > 0)
