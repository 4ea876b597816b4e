"""ONNX operators of the layers of region detectors."""

import numpy as np

from ...detection.boxes import CENTER_SIZE
from ...layers import onnx_boxes as shared
from ...layers.base.exporting import EXAMPLES, Node, Writer, layer_of, operator
from . import onnx_regions
from .anchor_target import shifted_anchors
from .proposal import Proposal
from .roi_detection_output import RoIDetectionOutput
from .roi_pooling import RegionPooled

__all__ = ["onnx_regions"]  # which registers operators too


@operator("ROIPooling")
def roi_pooling(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, RegionPooled)
    p, rows = layer.p, x[1]
    if len(node.bottoms[1].shape) != 2:
        rows = w.add("Reshape", [rows, w.numbers([-1, 5])])
    if layer.pad:  # each side moves out by a share of the box's size, whose last pixel belongs to it
        image, low, high = w.add_many("Split", [rows, w.numbers([1, 2, 2])], 3, axis=1)
        size = w.add("Add", [w.add("Sub", [high, low]), w.scalar(1)])
        margin = w.add("Mul", [size, w.scalar(layer.pad)])
        rows = w.add("Concat", [image, w.add("Sub", [low, margin]), w.add("Add", [high, margin])], axis=1)
    return [w.add("MaxRoiPool", [x[0], rows], pooled_shape=[p.pooled_h, p.pooled_w], spatial_scale=p.spatial_scale)]


@operator("Proposal")
def proposal(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, Proposal)
    if w.free.get(node.bottoms[0]):
        raise w.cannot(node, "anchors of images of any size")
    count, places = len(layer.base), layer.map[0] * layer.map[1]
    every = w.add("Slice", [x[0], w.numbers([count]), w.numbers([2 * count]), w.numbers([1])])
    scores = w.add("Reshape", [w.add("Transpose", [every], perm=[0, 2, 3, 1]), w.numbers([0, count * places])])
    moves = w.add("Reshape", [x[1], w.numbers([0, count, 4, places])])
    moves = w.add("Reshape", [w.add("Transpose", [moves], perm=[0, 3, 1, 2]), w.numbers([0, count * places, 4])])
    anchors = shifted_anchors(layer.base, layer.p.feat_stride, *layer.map).astype(np.float32)
    info = w.add("Reshape", [x[2], w.numbers([0, layer.info])])
    height, width, scale = (w.add("Gather", [info, w.numbers([i])], axis=1) for i in range(3))  # (N, 1)
    last = w.add("Sub", [w.add("Concat", [width, height, width, height], axis=1), w.scalar(1)])
    decoded = shared.decode(w, moves, w.constant(node, 0, anchors), CENTER_SIZE, pixels=True)
    boxes = w.add("Max", [w.add("Min", [decoded, w.add("Unsqueeze", [last, w.numbers([1])])]), w.scalar(0)])
    low, high = shared.halves(w, boxes)
    side = w.add("ReduceMin", [w.add("Add", [w.add("Sub", [high, low]), w.scalar(1)])], axes=[2], keepdims=0)
    small = w.add("Less", [side, w.add("Mul", [scale, w.scalar(layer.p.min_size)])])
    scores = w.add("Where", [small, w.scalar(shared.LOWEST if layer.of_python else 0), scores])
    values, ranks = shared.best(w, scores, w.numbers([min(layer.before, count * places)]))
    rows = shared.taken(w, boxes, ranks)
    stays = shared.Suppression(layer.p.nms_thresh, most=layer.after, pixels=True).write(w, rows, values)
    # The image itself where nothing stays
    alone = w.add("Sub", [w.scalar(1), w.add("ReduceMax", [stays], axes=[1], keepdims=1)])
    corner = w.array("of an image", np.array([0, 0, 1, 1], np.float32))
    whole = w.add("Unsqueeze", [w.add("Mul", [last, corner]), w.numbers([1])])
    zero = w.add("Mul", [alone, w.scalar(0)])
    stays, values = w.add("Concat", [stays, alone], axis=1), w.add("Concat", [values, zero], axis=1)
    chosen = shared.places_of(w, stays)
    image = shared.floats(w, w.add("Gather", [chosen, w.numbers([0])], axis=1))
    corners = w.add("GatherND", [w.add("Concat", [rows, whole], axis=1), chosen])
    score = w.add("GatherND", [values, chosen])
    score = w.add("Unsqueeze", [score, w.numbers([1])]) if layer.of_python else score
    return [w.add("Concat", [image, corners], axis=1), score][: len(node.tops)]


@operator("RoIDetectionOutput")
def roi_detection_output(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, RoIDetectionOutput)
    rois = w.add("Reshape", [x[0], w.numbers([-1, 5])])
    scores = w.add("Reshape", [x[1], w.numbers([-1, layer.classes])])
    moves = w.add("Reshape", [x[2], w.numbers([-1, layer.columns, 4])])
    moves = w.add("Mul", [moves, w.array(f"{node.layer.name} std", layer.std.astype(np.float32))])
    moves = w.add("Add", [moves, w.array(f"{node.layer.name} mean", layer.mean.astype(np.float32))])
    size = w.add("Slice", [x[3], w.numbers([0]), w.numbers([2]), w.numbers([1])])
    most = w.add("Gather", [w.add("Reshape", [size, w.numbers([-1, 2])]), w.numbers([1, 0, 1, 0])], axis=1)  # (N, 4)
    count = w.add("Shape", [rois], start=0, end=1)
    labels, images = list(range(1, layer.classes)), w.add("Shape", [most], start=0, end=1)
    # Boxes (R, L, 4), cut at the sides of their own images
    image = shared.column(w, rois, 0)
    own = w.add("Gather", [most, w.add("Cast", [image], to=shared.INT64)], axis=0)
    corners = w.add("Slice", [rois, w.numbers([1]), w.numbers([5]), w.numbers([1])])
    boxes = shared.decode(w, moves, w.add("Unsqueeze", [corners, w.numbers([1])]), CENTER_SIZE, pixels=True)
    boxes = w.add("Min", [boxes, w.add("Unsqueeze", [own, w.numbers([1])])])
    boxes = w.add("Max", [boxes, w.scalar(0)])
    columns = [min(label, layer.columns - 1) for label in labels]
    by_class = w.add("Transpose", [w.add("Gather", [boxes, w.numbers(columns)], axis=1)], perm=[1, 0, 2])
    # Scores (N, L, R), lowest in the images of others
    numbers = w.add("Range", [w.integer(0), w.add("Squeeze", [images, w.numbers([0])]), w.integer(1)])
    mine = w.add("Equal", [w.add("Unsqueeze", [shared.floats(w, numbers), w.numbers([1, 2])]), image])
    ranked = w.add("Gather", [w.add("Transpose", [scores], perm=[1, 0]), w.numbers(labels)], axis=0)
    ranked = w.add("Where", [mine, ranked, w.scalar(shared.LOWEST)])
    values, ranks = shared.best(w, ranked, count)
    shape = w.add("Concat", [images, w.numbers([len(labels)]), count, w.numbers([4])], axis=0)
    flat = w.add("Concat", [w.numbers([-1]), count, w.numbers([4])], axis=0)
    every = w.add("Reshape", [w.add("Expand", [by_class, shape]), flat])
    pairs = w.add("Concat", [w.numbers([-1]), count], axis=0)
    rows = shared.taken(w, every, w.add("Reshape", [ranks, pairs]))
    above = float(np.nextafter(np.float32(layer.p.confidence_threshold), np.float32(-1)))
    suppression = shared.Suppression(layer.p.nms_threshold, above, pixels=True)
    stays = suppression.write(w, rows, w.add("Reshape", [values, pairs]))
    if layer.p.keep_top_k < layer.rois * len(labels):
        of_image = w.add("Concat", [images, w.numbers([-1])], axis=0)
        stays, values_of_image = (w.add("Reshape", [blob, of_image]) for blob in (stays, values))
        width = w.add("Shape", [stays], start=1, end=2)
        stays = shared.limited(w, stays, values_of_image, w.add("Min", [width, w.numbers([layer.p.keep_top_k])]))
    stays = w.add("Reshape", [stays, w.add("Shape", [values])])
    shares = w.add("Unsqueeze", [w.add("Max", [most, w.scalar(1)]), w.numbers([1, 2])])  # (N, 1, 1, 4)
    corners = w.add("Div", [w.add("Reshape", [rows, shape]), shares])
    nothing = w.array("no object", np.array([[0, -1, 0, 0, 0, 0, 0]], np.float32))
    return [shared.detections(w, stays, values, corners, labels, nothing)]


def boxes(node: Node, rng: np.random.Generator) -> np.ndarray:
    """Boxes in the images that a layer pools over."""
    layer, shape = node.layer, node.bottoms[1].shape
    assert isinstance(layer, RegionPooled)
    images, _, height, width = layer.x_shape
    corners = np.sort(rng.uniform(0, 1, (2, shape[0], 2)) * [width, height] / layer.p.spatial_scale, 0)
    indices = rng.integers(0, images, shape[0])
    return np.column_stack([indices, *corners]).reshape(shape).astype(np.float32)


def sizes(node: Node, _: np.random.Generator) -> np.ndarray:
    """im_info of images that the feature map covers: height, width, a scale of 1."""
    layer, info = layer_of(node, Proposal), np.ones(node.bottoms[2].shape, np.float32)
    info.reshape(layer.images, -1)[:, :2] = np.array(layer.map) * layer.p.feat_stride
    return info


EXAMPLES.update({(kind, 1): boxes for kind in ("ROIPooling", "PSROIPooling", "ROIAlign")})
EXAMPLES["Proposal", 2] = sizes
