"""ONNX operators of SSD's layers."""

import numpy as np

from ...layers import onnx_boxes as shared
from ...layers.base.exporting import Node, Writer, layer_of, operator
from .detection import DetectionOutput
from .prior_box import Priors


@operator("PriorBox", "PriorBoxClustered")
def priors(w: Writer, node: Node, x: list[str], _) -> list[str]:
    if any(w.free.get(bottom) for bottom in node.bottoms):
        raise w.cannot(node, "boxes of images of any size")
    return [w.constant(node, 0, layer_of(node, Priors).computed().astype(np.float32))]


@operator("DetectionOutput")
def detection_output(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, DetectionOutput)
    if layer.outline or layer.p.nms_param.eta != 1:
        raise w.cannot(node, "outlines" if layer.outline else "an eta below 1")
    nms, count, labels = layer.p.nms_param, len(layer.labels), layer.labels
    boxes, scores = _decoded(w, layer, x), _scores(w, layer, x)
    most = layer.priors if layer.most < 0 else min(layer.most, layer.priors)
    values, places = shared.best(w, scores, w.numbers([most]))  # (N, L, K)
    flat = [-1, most] if not layer.p.share_location else [-1, count * most]
    rows = shared.taken(w, boxes, w.add("Reshape", [places, w.numbers(flat)]))
    mine = w.add("Reshape", [rows, w.numbers([-1, most, 4])])
    suppression = shared.Suppression(nms.nms_threshold, layer.above)
    stays = suppression.write(w, mine, w.add("Reshape", [values, w.numbers([-1, most])]))
    if -1 < layer.p.keep_top_k < count * most:
        of_image = w.numbers([-1, count * most])
        stays, values_of_image = (w.add("Reshape", [blob, of_image]) for blob in (stays, values))
        stays = shared.limited(w, stays, values_of_image, w.numbers([layer.p.keep_top_k]))
    stays = w.add("Reshape", [stays, w.numbers([-1, count, most])])
    corners = w.add("Reshape", [rows, w.numbers([-1, count, most, 4])])
    return [shared.detections(w, stays, values, corners, labels, shared.nothing(w, values))]


def _decoded(w: Writer, layer: DetectionOutput, x: list[str]) -> str:
    """The boxes (N, P, 4), or of each class (N·L, P, 4)."""
    table = w.add("Reshape", [x[2], w.numbers([2, layer.priors, 1, 4])])
    anchors, variances = w.add_many("Split", [table, w.numbers([1, 1])], 2, axis=0)

    def moved(offsets: str, classes: int, anchors: str) -> str:
        moves = w.add("Reshape", [offsets, w.numbers([0, layer.priors, classes, 4])])
        if not layer.p.variance_encoded_in_target:
            moves = w.add("Mul", [moves, variances])
        return shared.decode(w, moves, anchors, layer.p.code_type)

    if layer.refines:
        anchors = moved(x[4], 1, anchors)
    boxes = moved(x[0], layer.location_classes, anchors)
    if layer.p.clip:
        boxes = w.add("Clip", [boxes, w.scalar(0), w.scalar(1)])
    if not layer.p.share_location:
        boxes = w.add("Transpose", [boxes], perm=[0, 2, 1, 3])
        boxes = w.add("Gather", [boxes, w.numbers(layer.labels)], axis=1)
    return w.add("Reshape", [boxes, w.numbers([-1, layer.priors, 4])])


def _scores(w: Writer, layer: DetectionOutput, x: list[str]) -> str:
    """(N, L, P), of all classes but the background."""
    scores = w.add("Reshape", [x[1], w.numbers([0, layer.priors, layer.classes])])
    if layer.refines:
        pairs = w.add("Reshape", [x[3], w.numbers([0, layer.priors, 2])])
        of_object = w.add("Gather", [pairs, w.numbers([1])], axis=2)
        background = w.array(f"class 0 of {layer.classes}", np.eye(1, layer.classes, dtype=np.float32))
        low = w.add("Less", [of_object, w.scalar(layer.p.objectness_score)])
        scores = w.add("Where", [low, background, scores])
    return w.add("Gather", [w.add("Transpose", [scores], perm=[0, 2, 1]), w.numbers(layer.labels)], axis=1)
