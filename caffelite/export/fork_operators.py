"""Maps layers of Caffe's forks to ONNX operators."""

from __future__ import annotations

import math

import numpy as np

from ..layers.inner_product import NormalisedInnerProduct
from ..layers.normalize import Normalize
from ..layers.normface import UnitNorm
from ..layers.quantisation import binary_weights
from ..net.graph import Node
from .operators import inner_product, kernels, operator
from .writer import Writer

ALL = np.iinfo(np.int64).min  # the end of a Slice that runs backwards to the first element


@operator("Normalize")
def normalize(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer, rank = node.layer, len(node.bottoms[0].shape)
    if isinstance(layer, UnitNorm):
        squared = layer.p.normalize_type == "L2"
        total = w.add("ReduceSumSquare" if squared else "ReduceL1", x, axes=[1], keepdims=1)
        norm = w.add("Add", [total, w.scalar(1e-6)])
        norm = w.add("Sqrt", [norm]) if squared else norm
        return [w.add("Div", [x[0], norm]), norm][: len(node.tops)]
    assert isinstance(layer, Normalize)
    axes = list(range(1, rank)) if layer.p.across_spatial else [1]
    total = w.add("ReduceSumSquare", x, axes=axes, keepdims=1)
    unit = w.add("Div", [x[0], w.add("Sqrt", [w.add("Add", [total, w.scalar(layer.p.eps)])])])
    scale = params[0].reshape(-1, *[1] * (rank - 2)) if params[0].ndim else params[0]
    return [w.add("Mul", [unit, w.constant(node, 0, scale)])]


@operator("Flip")
def flip(w: Writer, node: Node, x: list[str], _) -> list[str]:
    axes = [axis for axis, flipped in ((2, node.layer.p.flip_height), (3, node.layer.p.flip_width)) if flipped]
    if not axes:
        return x
    given = [[-1] * len(axes), [ALL] * len(axes), axes, [-1] * len(axes)]
    return [w.add("Slice", [x[0], *(w.numbers(values) for values in given)])]


@operator("Insanity")
def insanity(w: Writer, node: Node, x: list[str], _) -> list[str]:
    low, high = node.layer.p.lb, node.layer.p.ub
    slope = (math.log(abs(high)) - math.log(abs(low))) / (high - low)
    return [w.add("LeakyRelu", x, alpha=slope)]


@operator("InnerDistance")
def inner_distance(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer, shape = node.layer, node.bottoms[0].shape
    if layer.axis(layer.p.axis, len(shape)) != 1 or layer.p.update_center_only:
        raise w.cannot(node, "labels" if layer.p.update_center_only else f"axis {layer.p.axis}")
    rows = (
        x[1]
        if len(x) > 1
        else w.constant(node, 0, NormalisedInnerProduct.unit_rows(params[0]) if layer.p.normalize else params[0])
    )
    flat = x[0] if len(shape) == 2 else w.add("Flatten", x[:1], axis=1)
    gap = w.add("Sub", [w.add("Unsqueeze", [flat, w.numbers([1])]), rows])
    return [w.add("ReduceSumSquare" if layer.p.distance_type == "L2" else "ReduceL1", [gap], axes=[2], keepdims=0)]


@operator("ChannelScale")
def channel_scale(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p = node.layer.p
    if not p.do_forward:
        return x[:1] if len(node.tops) == 1 else [x[0], w.constant(node, 0, params[0])]
    if p.global_scale:
        limited = np.clip(params[0], p.min_global_scale, p.max_global_scale)
        factor = w.constant(node, 0, limited)
        return [w.add("Mul", [x[0], factor]), factor][: len(node.tops)]
    ranks = [len(value.shape) for value in node.bottoms]
    scale = x[1] if ranks[0] == ranks[1] else w.add("Unsqueeze", [x[1], w.numbers([1])])
    return [w.add("Mul", [x[0], scale])]


@operator("ROIPooling")
def roi_pooling(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    rows = x[1] if len(node.bottoms[1].shape) == 2 else w.add("Reshape", [x[1], w.numbers([-1, 5])])
    return [w.add("MaxRoiPool", [x[0], rows], pooled_shape=[p.pooled_h, p.pooled_w], spatial_scale=p.spatial_scale)]


@operator("LabelSpecificAdd", "LabelSpecificRescale")
def unchanged(w: Writer, node: Node, x: list[str], _) -> list[str]:
    if not node.layer.view:
        raise w.cannot(node, "labels")
    return x[:1]


@operator("BinaryConvolution")
def binary_convolution(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p = node.layer.spec.binary_convolution_param
    return kernels(w, node, x, [binary_weights(params[0], p.use_alpha), *params[1:]] if p.use_binarization else params)


@operator("BinaryInnerProduct")
def binary_inner_product(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p = node.layer.spec.binary_inner_product_param
    binary = [binary_weights(params[0], p.use_alpha), *params[1:]] if p.use_binarization else params
    return inner_product(w, node, x, binary)


@operator("Sparsify")
def sparsify(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Shrink", x, lambd=node.layer.p.thre, bias=node.layer.p.thre)] if node.layer.p.thre else x


@operator("SeLu")
def selu(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    return [w.add("Selu", x, alpha=p.alpha, gamma=getattr(p, "lambda"))]


@operator("SeLuDropout", "Gather")
def same(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return x


@operator("Transpose")
def transpose(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Transpose", x, perm=list(node.layer.p.dim))]


@operator("Reverse")
def reverse(w: Writer, node: Node, x: list[str], _) -> list[str]:
    axis = node.layer.axis(node.layer.p.axis, len(node.bottoms[0].shape))
    return [w.add("Slice", [x[0], *(w.numbers([value]) for value in (-1, ALL, axis, -1))])]
