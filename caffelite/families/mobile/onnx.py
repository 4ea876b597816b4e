"""ONNX operators of the layers of mobile nets."""

import math

from ...layers.base.exporting import Node, Writer, operator
from ...layers.onnx import kernels


@operator("ReLU6")
def relu6(w: Writer, node: Node, x: list[str], _) -> list[str]:
    slope = node.layer.p.negative_slope
    rectified = w.add("LeakyRelu", x, alpha=slope) if slope else w.add("Relu", x)
    return [w.add("Min", [rectified, w.scalar(6)])]


@operator("HardSwish")
def hard_swish(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("HardSwish", x)]


@operator("ShuffleChannel")
def shuffle_channel(w: Writer, node: Node, x: list[str], _) -> list[str]:
    shape, group = node.bottoms[0].shape, node.layer.p.group
    rows = w.add("Reshape", [x[0], w.numbers([0, group, shape[1] // group, math.prod(shape[2:])])])
    return [w.add("Reshape", [w.add("Transpose", [rows], perm=[0, 2, 1, 3]), w.numbers([0, *shape[1:]])])]


operator("DepthwiseConvolution", "ConvolutionDepthwise")(kernels)
