"""ONNX operators of the single layers."""

import math

import numpy as np

from ...layers.base.exporting import Node, Writer, layer_of, operator
from .group_norm import GroupNorm


@operator("GRN")
def grn(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    if not node.layer.p.bias:
        raise w.cannot(node, "a bias of 0, where places of zeros stay 0")
    squares = w.add("ReduceSum", [w.add("Mul", [x[0], x[0]]), w.numbers([1])], keepdims=1)
    return [w.add("Div", [x[0], w.add("Sqrt", [w.add("Add", [squares, w.scalar(node.layer.p.bias)])])])]


@operator("Sum")
def sum_(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    count, shape = node.layer.p.num_component, node.bottoms[0].shape
    if not count:
        return [w.add("Sum", x)]
    groups = w.add("Reshape", [x[0], w.numbers([0, count, shape[1] // count, math.prod(shape[2:])])])
    sums = w.add("ReduceSum", [groups, w.numbers([2])], keepdims=0)
    return [w.add("Reshape", [sums, w.numbers([0, count, *shape[2:]])])]


@operator("SpatialDropout")
def spatial_dropout(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    if node.layer.p.sample_weights_test:
        raise w.cannot(node, "a mask that is drawn in TEST")
    return x


@operator("PixelShuffle")
def pixel_shuffle(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    return [w.add("DepthToSpace", x, blocksize=node.layer.p.upscale_factor, mode="CRD")]


@operator("GELU")
def gelu(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    share = w.add("Add", [w.add("Erf", [w.add("Mul", [x[0], w.scalar(math.sqrt(0.5))])]), w.scalar(1)])
    return [w.add("Mul", [w.add("Mul", [x[0], w.scalar(0.5)]), share])]


@operator("MatMul")
def matmul(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    return [w.add("MatMul", x)]


@operator("Mul")
def mul(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    return [w.add("Mul", [*x, *(w.constant(node, i, array) for i, array in enumerate(params))])]


@operator("GroupNorm")
def group_norm(w: Writer, node: Node, x: list[str], _: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, GroupNorm)
    groups = layer.p.group_num
    ones, zeros = (w.array(f"{groups} of {n}", np.full(groups, n, np.float32)) for n in (1, 0))
    rows = w.add("Reshape", [x[0], w.numbers([0, groups, -1])])
    normal = w.add("InstanceNormalization", [rows, ones, zeros], epsilon=layer.p.eps)
    return [w.add("Reshape", [normal, w.add("Shape", x)])]
