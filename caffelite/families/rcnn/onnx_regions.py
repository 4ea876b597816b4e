"""ONNX operators of means and interpolated values of boxes. What a cell of a box takes from a pixel is a product of a
weight of the pixel's row and one of its column, so that a cell is two products of matrices."""

from collections.abc import Callable

import numpy as np

from ...layers import onnx_boxes as shared
from ...layers.base.exporting import Node, Writer, layer_of, operator
from .roi_pooling import RegionPooled

Weights = Callable[[Writer, str, str, int, int], str]  # first and last pixel (R, 1), cell, size of the map → (R, size)


@operator("PSROIPooling")
def position_pooling(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, RegionPooled)
    outputs, group, _ = layer.y_shape[1:]

    def means(w: Writer, low: str, high: str, cell: int, size: int) -> str:
        start = w.add("Mul", [_rounded(w, low), w.scalar(layer.p.spatial_scale)])
        end = w.add("Mul", [w.add("Add", [_rounded(w, high), w.scalar(1)]), w.scalar(layer.p.spatial_scale)])
        one = w.add("Div", [w.add("Max", [w.add("Sub", [end, start]), w.scalar(0.1)]), w.scalar(group)])
        sides = [w.add("Add", [w.add("Mul", [one, w.scalar(i)]), start]) for i in (cell, cell + 1)]
        first, last = w.add("Floor", sides[:1]), w.add("Ceil", sides[1:])
        pixels = _pixels(w, size)
        inside = w.add("And", [w.add("GreaterOrEqual", [pixels, first]), w.add("Less", [pixels, last])])
        taken = shared.floats(w, inside)
        count = w.add("ReduceSum", [taken, w.numbers([1])], keepdims=1)
        return w.add("Div", [taken, w.add("Max", [count, w.scalar(1)])])

    def channels(w: Writer, i: int, j: int) -> str:
        return w.add("Gather", [x[0], w.numbers([(c * group + i) * group + j for c in range(outputs)])], axis=1)

    return [_pooled(w, layer, x, means, channels)]


@operator("ROIAlign")
def align(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, RegionPooled)
    scale = layer.p.spatial_scale

    def weights(cells: int) -> Weights:
        def tents(w: Writer, low: str, high: str, cell: int, size: int) -> str:
            extent = w.add("Add", [w.add("Sub", [high, low]), w.scalar(1)])
            margin = w.add("Mul", [extent, w.scalar(layer.pad)])
            sides = w.add("Sub", [low, margin]), w.add("Add", [high, margin])
            start, end = (w.add("Sub", [w.add("Mul", [side, w.scalar(scale)]), w.scalar(0.5)]) for side in sides)
            length = w.add("Sub", [end, start])
            at = w.add("Add", [start, w.add("Mul", [length, w.scalar(cell / cells)])])
            near = w.add("And", [w.add("GreaterOrEqual", [at, w.scalar(-0.5)]), _up_to(w, at, size - 0.5)])
            counts = shared.floats(w, w.add("And", [near, w.add("Greater", [length, w.scalar(0)])]))
            at = w.add("Min", [w.add("Max", [at, w.scalar(0)]), w.scalar(size - 1)])
            apart = w.add("Abs", [w.add("Sub", [_pixels(w, size), at])])
            return w.add("Mul", [w.add("Max", [w.add("Sub", [w.scalar(1), apart]), w.scalar(0)]), counts])

        return tents

    return [_pooled(w, layer, x, weights, lambda w, i, j: x[0])]


def _up_to(w: Writer, values: str, most: float) -> str:
    return w.add("LessOrEqual", [values, w.scalar(most)])


def _pooled(w: Writer, layer: RegionPooled, x: list[str], weights: Callable, channels: Callable) -> str:
    """The cells (R, C, PH, PW). weights: of the pixels along an axis; channels(w, i, j): the maps (N, C, H, W) that a
    cell reads."""
    _, _, height, width = layer.x_shape
    _, count, high, wide = layer.y_shape
    rois = w.add("Reshape", [x[1], w.numbers([-1, 5])])
    image, left, top, right, bottom = w.add_many("Split", [rois, w.numbers([1] * 5)], 5, axis=1)
    of_rows, of_columns = (weights, weights) if layer.method == "POSITION" else (weights(high - 1), weights(wide - 1))
    rows = [_turned(w, of_rows(w, top, bottom, i, height)) for i in range(high)]
    columns = [_turned(w, of_columns(w, left, right, j, width)) for j in range(wide)]
    own = _own_image(w, x[0], image)
    cells = []
    for i in range(high):
        for j in range(wide):
            sums = w.add("MatMul", [channels(w, i, j), columns[j]])  # (N, C, H, R)
            sums = w.add("ReduceSum", [w.add("Mul", [sums, rows[i]]), w.numbers([2])], keepdims=0)
            cells.append(w.add("ReduceSum", [w.add("Mul", [sums, own]), w.numbers([0])], keepdims=1))
    every = w.add("Transpose", [w.add("Concat", cells, axis=0)], perm=[2, 1, 0])
    return w.add("Reshape", [every, w.numbers([-1, count, high, wide])])


def _turned(w: Writer, weights: str) -> str:
    return w.add("Transpose", [weights], perm=[1, 0])


def _own_image(w: Writer, x: str, image: str) -> str:
    """(N, 1, R): 1 for the image of a box."""
    count = w.add("Squeeze", [w.add("Shape", [x], start=0, end=1), w.numbers([0])])
    numbers = shared.floats(w, w.add("Range", [w.integer(0), count, w.integer(1)]))
    same = w.add("Equal", [w.add("Unsqueeze", [numbers, w.numbers([1, 2])]), _turned(w, image)])
    return shared.floats(w, same)


def _pixels(w: Writer, size: int) -> str:
    return w.array(f"pixels {size}", np.arange(size, dtype=np.float32)[None])


def _rounded(w: Writer, x: str) -> str:
    """The nearest integers, halves away from 0."""
    size = w.add("Floor", [w.add("Add", [w.add("Abs", [x]), w.scalar(0.5)])])
    return w.add("Mul", [w.add("Sign", [x]), size])
