"""Maps of fields (MS-CNN, Cascade R-CNN): sizes, labels, targets and boxes of the cells of a map.

A field is a box of a fixed size around the center of each cell; boxes are (xmin, ymin, xmax, ymax) in pixels. A label
map (6, H, W) has for each cell: the label, 0 for background; center x and y, width and height of the matched object;
and the IoU of the field with the object that it overlaps most, 1 where the cell is in no loss. Labels of ImageGtData
(MS-CNN) and of DetectionData (Cascade R-CNN, where both corners belong to a box) share one algorithm. Sources: Cai et
al. 2016 and 2018; zhaoweicai/mscnn src/caffe/layers/image_gt_data_layer.cpp and detection_loss_layer.cpp;
zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp and src/caffe/util/bbox_util.cpp.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection.boxes import coverages, overlaps, rounded

IGNORED_COVER = 0.4  # ImageGtData: a field that regions cover by this share, each region's part added, is in no loss
LEAST_OVERLAP = 0.2  # ImageGtData: the least IoU with a field of an object that is assigned the cell of its center
LEAST_SIDE = 2.0  # of an object, in pixels, as a target
LABEL_CHANNELS = 6
BOX_ROW = 7  # image of the batch, xmin, ymin, xmax, ymax, label, ignored
NO_BOX = -1.0  # the label of a row of boxes that is none
MULTIPLE = 32  # of the sides of images of DetectionData and EvalData


class Field(NamedTuple):
    """Sides of a field, and of a cell of its map, in pixels."""

    width: float
    height: float
    stride: float


class Objects(NamedTuple):
    """Objects of an image: boxes (M, 4), labels (M) from 1 on, ignored and difficult (M); and regions (R, 4) in which
    nothing is background."""

    boxes: np.ndarray
    labels: np.ndarray
    ignored: np.ndarray
    difficult: np.ndarray
    regions: np.ndarray


class Rules(NamedTuple):
    """How objects are assigned to cells.

    threshold: a cell is assigned the object that its field overlaps most, if by more than this. least: an object
    without a cell is assigned the cell of its center if its largest overlap is this or more. pixels: both corners
    belong to a box. best_overlap: that cell gets the object's largest overlap; else it keeps that of its own field.
    """

    threshold: float
    least: float
    pixels: bool
    best_overlap: bool


class Cells(NamedTuple):
    """The cells of a map: the boxes (H·W, 4) of their fields; which can have an object (H·W); which can be background
    (H·W). A cell that is neither is in no loss."""

    fields: np.ndarray
    usable: np.ndarray
    background: np.ndarray


def fields_of(widths: Iterable[float], heights: Iterable[float], strides: Iterable[float]) -> list[Field]:
    """The field of each map."""
    return [Field(*sides) for sides in zip(widths, heights, strides, strict=True)]


def image_gt_size(param: pb.ImageGtDataParameter, listed: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the images of a batch. listed: of the image that decides without resize_width and crop_width,
    or 0."""
    height, width = (param.resize_height, param.resize_width) if param.resize_width else listed
    return param.crop_height or height, param.crop_width or width


def detection_size(param: pb.DetectionDataParameter, size: tuple[int, int], ratio: float = 1.0) -> tuple[int, int]:
    """Height and width of the images of a batch; (0, 0) where nothing decides them.

    size: height and width of the first image of the batch, which decides between portrait and landscape; (0, 0):
    unknown. ratio: of template_ratio.
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


def in_multiples(side: float) -> int:
    """The nearest multiple of 32."""
    return rounded(side / MULTIPLE) * MULTIPLE


def map_size(size: tuple[int, int], stride: float) -> tuple[int, int]:
    """Rows and columns of the map of images of this height and width."""
    return rounded(size[0] / stride), rounded(size[1] / stride)


def image_gt_shapes(param: pb.ImageGtDataParameter, size: tuple[int, int], objects: int) -> list[tuple[int, ...]]:
    """The shapes of all tops. size: height and width of images; objects: the most of an image."""
    n = param.batch_size
    sides = [[max(1, side) for side in map_size(size, stride)] for stride in param.downsample_rate]
    boxes = [(max(1, n * objects), BOX_ROW)] if param.output_gt_boxes else []
    return [(n, 3, *size), *((n, LABEL_CHANNELS, *s) for s in sides), *boxes]


def centers(rows: int, columns: int, stride: float) -> np.ndarray:
    """The centers (2, rows, columns) of the cells of a map, x and y, in pixels."""
    return np.stack(np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)) * stride


def covered_cells(window: tuple[int, int, int, int], stride: float) -> tuple[int, int, int, int]:
    """The cells top, left, bottom, right of a map that a part top, left, height, width of the net's input covers."""
    top, left, height, width = (rounded(side / stride) for side in window)
    return top, left, top + height, left + width


def image_gt_labels(
    fields: list[Field], objects: Objects, windows: list[tuple[int, int, int, int]], threshold: float, maps: list
) -> None:
    """Fills the label map (6, H, W) of each field, as ImageGtData does.

    A cell has the label of the object that its field overlaps most, if by more than ``threshold``; of an ignored
    object, label 0. Cells outside of the image and those whose fields the regions cover are in no loss. An object
    without a cell is then assigned the cell of its center, in the map whose fields overlap it most. windows: the cells
    of each map that the image covers: top, left, bottom, right.
    """

    def cells(field: Field, window: tuple[int, int, int, int], shape: tuple[int, ...]) -> Cells:
        boxes = _boxes(field, shape)
        usable = _inside(window, shape) & (coverages(boxes, objects.regions).sum(1) < IGNORED_COVER)
        return Cells(boxes, usable, usable)

    each = zip(fields, windows, maps, strict=True)
    cells_of_fields = (cells(field, window, out.shape[1:]) for field, window, out in each)
    _label(fields, cells_of_fields, objects, Rules(threshold, LEAST_OVERLAP, False, False), maps)


def detection_labels(
    param: pb.DetectionDataParameter, objects: Objects, window: tuple[int, int, int, int], maps: list[np.ndarray]
) -> None:
    """Fills the label map (6, H, W) of each field, as DetectionData does.

    As ``image_gt_labels``, except: both corners belong to a box; a field that the regions cover by ignore_fg_threshold
    or more can have an object but is not background; fields that reach too far out of the image are in no loss; an
    object without a cell must have an overlap of pickup_iou_thr, which the cell of its center gets too. window: where
    the image is in the net's input: top, left, height, width.
    """
    fields = fields_of(param.field_w, param.field_h, param.stride)

    def cells(field: Field, shape: tuple[int, ...]) -> Cells:
        boxes = _boxes(field, shape)
        usable = _inside(covered_cells(window, field.stride), shape) & _within(param, boxes, window)
        covered = coverages(boxes, objects.regions, pixels=True).sum(1) >= param.ignore_fg_threshold
        return Cells(boxes, usable, usable & ~covered)

    cells_of_fields = (cells(field, out.shape[1:]) for field, out in zip(fields, maps, strict=True))
    _label(fields, cells_of_fields, objects, Rules(param.fg_threshold, param.pickup_iou_thr, True, True), maps)


def _label(fields: list[Field], cells: Iterable[Cells], objects: Objects, rules: Rules, maps: list[np.ndarray]) -> None:
    """Fills the label map (6, H, W) of each field. cells: of each map."""
    count = len(objects.boxes)
    best, best_map, matched = np.zeros(count), np.zeros(count, int), np.zeros(count, bool)
    labels = np.where(objects.ignored, 0, objects.labels)
    for number, (own, out) in enumerate(zip(cells, maps, strict=True)):
        table = overlaps(own.fields, objects.boxes, rules.pixels) * own.usable[:, None]
        most = table.max(1, initial=0)
        assigned = own.usable & (most > rules.threshold)
        out[:] = 0
        out[5] = np.where(own.background | assigned, most, 1).reshape(out.shape[1:])
        if not count:
            continue
        highest = table.max(0, initial=0)
        best_map[highest > best] = number
        best = np.maximum(best, highest)
        nearest = table.argmax(1)[assigned]
        matched[nearest] = True
        targets = _targets(labels[nearest], objects.boxes[nearest], rules.pixels)
        out[:5, assigned.reshape(out.shape[1:])] = targets
    for i in np.flatnonzero(~matched & ~objects.ignored & (best >= rules.least)):
        out, box = maps[best_map[i]], objects.boxes[i]
        x, y = np.floor((box[:2] + box[2:]) / 2 / fields[best_map[i]].stride).astype(int)
        y, x = min(max(0, y), out.shape[1] - 1), min(max(0, x), out.shape[2] - 1)
        if not out[0, y, x] > 0:
            out[:5, y, x] = _targets(objects.labels[i : i + 1], box[None], rules.pixels)[:, 0]
            if rules.best_overlap:
                out[5, y, x] = best[i]


def _boxes(field: Field, shape: tuple[int, ...]) -> np.ndarray:
    """The boxes (H·W, 4) of the fields of a map (H, W)."""
    middle = centers(shape[0], shape[1], field.stride).reshape(2, -1).T
    half = np.array([field.width, field.height]) / 2
    return np.concatenate([middle - half, middle + half], 1)


def _inside(window: tuple[int, int, int, int], shape: tuple[int, ...]) -> np.ndarray:
    """Which cells (H·W) are from top and left to bottom and right."""
    top, left, bottom, right = window
    inside = np.zeros(shape, bool)
    inside[top:bottom, left:right] = True
    return inside.reshape(-1)


def _within(param: pb.DetectionDataParameter, boxes: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
    """Which fields (N, 4) do not reach too far out of the image (N)."""
    top, left, height, width = window
    if param.HasField("anchor_ignore_margin_ratio"):
        margin = param.anchor_ignore_margin_ratio * (boxes[:, 2:] - boxes[:, :2]) / 2
        return ((boxes[:, :2] >= (left, top) - margin) & (boxes[:, 2:] < (left + width, top + height) + margin)).all(1)
    if param.HasField("anchor_ignore_iou_thr"):
        image = np.array([[left, top, left + width, top + height]], float)
        return coverages(boxes, image, pixels=True)[:, 0] >= param.anchor_ignore_iou_thr
    return np.ones(len(boxes), bool)


def _targets(labels: np.ndarray, boxes: np.ndarray, pixels: bool) -> np.ndarray:
    """The first channels (5, K) of a label map: label, center, width and height of boxes (K, 4)."""
    return np.stack([labels, *((boxes[:, :2] + boxes[:, 2:]) / 2).T, *(boxes[:, 2:] - boxes[:, :2] + pixels).T])


def encode(targets: np.ndarray, field: Field) -> np.ndarray:
    """The offsets (..., 4, H, W) of boxes with center and sides (..., 4, H, W) from the fields of their cells."""
    size = np.array([field.width, field.height]).reshape(2, 1, 1)
    rows, columns = targets.shape[-2:]
    moved = (targets[..., :2, :, :] - centers(rows, columns, field.stride)) / size
    return np.concatenate([moved, np.log(np.maximum(targets[..., 2:, :, :], LEAST_SIDE) / size)], -3)


def bounds(ratios: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The least and largest offsets (4). ratios: the largest ratio of sides to those of the field, and the inverse of
    the largest offset of a center."""
    largest = np.array([1 / ratios[1]] * 2 + [np.log(ratios[0])] * 2)
    return -largest, largest


def overlaps_of_pairs(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> np.ndarray:
    """The IoU (N) of each box a (N, 4) with the box b (N, 4); 0 where a side of the intersection is less than
    ``least`` or a box is empty."""
    sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
    common = np.where((sides > 0).all(1) & (sides >= least).all(1), sides.prod(1), 0)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
    return np.divide(common, union, out=np.zeros(len(a)), where=common > 0)
