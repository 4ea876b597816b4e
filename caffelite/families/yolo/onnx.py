"""ONNX operators of YOLO's layers."""

import numpy as np

from ...layers import onnx_boxes as shared
from ...layers.base.exporting import Node, Writer, layer_of, operator
from . import grids
from .detection import YoloDetectionOutput, YoloOutput, Yolov3DetectionOutput
from .reorg import Reorg


@operator("Reorg")
def reorg(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = node.layer
    assert isinstance(layer, Reorg)
    side = layer.p.stride
    if layer.p.reverse:
        return [w.add("DepthToSpace", x, blocksize=side, mode="DCR")]
    if w.free.get(node.bottoms[0]):
        raise w.cannot(node, "Darknet's order of values, which depends on the size of images,")
    squares = w.add("Reshape", [x[0], w.numbers([0, *layer.axes[1:]])])
    turned = w.add("Transpose", [squares], perm=[0, 3, 5, 1, 2, 4])
    return [w.add("Reshape", [turned, w.numbers([0, *node.tops[0].shape[1:]])])]


@operator("YoloDetectionOutput", "Yolov3DetectionOutput")
def detections(w: Writer, node: Node, x: list[str], _) -> list[str]:
    """Boxes (N, R, 4) and scores (N, R·K) of all grids; then suppression among the boxes of all classes."""
    layer = layer_of(node, YoloOutput)
    if any(w.free.get(bottom) for bottom in node.bottoms):
        raise w.cannot(node, "grids of any size")
    parts = [_grid(w, layer, name, i) for i, name in enumerate(x)]
    boxes, scores = (w.add("Concat", list(each), axis=1) for each in zip(*parts, strict=True))
    low, high = shared.halves(w, boxes)
    area = w.add("ReduceProd", [w.add("Max", [w.add("Sub", [high, low]), w.scalar(0)])], axes=[2], keepdims=1)
    usable = w.add("And", [w.add("Greater", [area, w.scalar(0)]), w.add("Not", [w.add("IsInf", [area])])])
    scores = w.add("Where", [usable, scores, w.scalar(shared.LOWEST)])
    count = sum(n * h * width for _, n, _, h, width in layer.grids) * layer.p.num_classes
    flat = w.add("Reshape", [scores, w.numbers([-1, count])])
    values, places = shared.best(w, flat, w.numbers([count]))
    classes = w.integer(layer.p.num_classes)
    rows = shared.taken(w, boxes, w.add("Div", [places, classes]))
    least = np.float32(layer.p.confidence_threshold)
    above = float(np.nextafter(least, np.float32(-1)) if layer.inclusive else least)
    overlap = float(np.nextafter(np.float32(layer.p.nms_threshold), np.float32(-1)))
    stays = shared.Suppression(overlap, above).write(w, rows, values)
    at = shared.places_of(w, stays)
    labels = w.add("Add", [shared.floats(w, w.add("Mod", [places, classes])), w.scalar(1)])
    columns = [w.add("Unsqueeze", [w.add("GatherND", [each, at]), w.numbers([1])]) for each in (labels, values)]
    image = shared.floats(w, w.add("Gather", [at, w.numbers([0])], axis=1))
    found = w.add("Concat", [image, *columns, w.add("GatherND", [rows, at])], axis=1)
    return [shared.rows_or(w, found, shared.nothing(w, values))]


def _grid(w: Writer, layer: YoloOutput, name: str, index: int) -> tuple[str, str]:
    """The boxes (N, R, 4) of a grid and the scores (N, R, K) of their classes."""
    _, anchors, numbers, height, width = layer.grids[index]
    table = w.add("Reshape", [name, w.numbers([-1, anchors, numbers, height, width])])

    def columns(first: int, last: int, step: int = 1) -> str:
        return w.add("Slice", [table, *(w.numbers([n]) for n in (first, last, 2, step))])

    label = f"{layer.name} {index}"
    cells = w.array(f"{label} cells", grids.cells(height, width).astype(np.float32))
    grid = w.array(f"{label} grid", np.array([width, height], np.float32)[:, None, None])
    sizes = w.array(f"{label} anchors", layer.sizes[index].astype(np.float32)[:, :, None, None])
    gaussian = isinstance(layer, Yolov3DetectionOutput) and layer.p.gaussian_box
    moves, growth = (columns(0, 4, 2), columns(4, 8, 2)) if gaussian else (columns(0, 2), columns(2, 4))
    centers = w.add("Div", [w.add("Add", [cells, w.add("Sigmoid", [moves])]), grid])
    half = w.add("Mul", [w.add("Mul", [w.add("Exp", [growth]), sizes]), w.scalar(0.5)])
    corners = w.add("Concat", [w.add("Sub", [centers, half]), w.add("Add", [centers, half])], axis=2)
    first = 9 if gaussian else 5
    score = _scores(w, layer, columns(first - 1, first), columns(first, numbers))
    if gaussian:
        unsure = w.add("ReduceMean", [w.add("Sigmoid", [columns(1, 8, 2)])], axes=[2], keepdims=1)
        score = w.add("Mul", [score, w.add("Sub", [w.scalar(1), unsure])])
    rows = height * width * anchors
    boxes, scores = (
        w.add("Reshape", [w.add("Transpose", [each], perm=[0, 3, 4, 1, 2]), w.numbers([-1, rows, size])])
        for each, size in ((corners, 4), (score, layer.p.num_classes))
    )
    return boxes, scores


def _scores(w: Writer, layer: YoloOutput, object_: str, classes: str) -> str:
    """(N, A, K, H, W): of all classes, or of YOLOv2's best class alone."""
    sure = w.add("Sigmoid", [object_])
    if not isinstance(layer, YoloDetectionOutput):
        return w.add("Mul", [sure, w.add("Sigmoid", [classes])])
    scores = w.add("Mul", [sure, w.add("Softmax", [classes], axis=2)])
    best = w.add("ArgMax", [scores], axis=2, keepdims=1)
    count = layer.p.num_classes
    numbers = w.array(f"classes {count}", np.arange(count).reshape(1, 1, count, 1, 1))
    return w.add("Where", [w.add("Equal", [numbers, best]), scores, w.scalar(shared.LOWEST)])
