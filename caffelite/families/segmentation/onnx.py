"""ONNX operators of the layers of segmentation."""

import numpy as np

from ...layers.base.exporting import Node, Writer, layer_of, operator
from .bn import BN
from .interp import Interp
from .upsample import Upsample


@operator("BN")
def bn(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, BN)
    if layer.couples_samples:
        raise w.cannot(node, "moments of the batch")
    rank = len(node.bottoms[0].shape)
    if layer.plain:
        scale, bias = (w.constant(node, i, array.reshape(-1, *[1] * (rank - 2))) for i, array in enumerate(params))
        return [w.add("Add", [w.add("Mul", [x[0], scale]), bias])]
    constants = [w.constant(node, i, array.reshape(-1)) for i, array in enumerate(params)]
    return [w.add("BatchNormalization", [*x, *constants], epsilon=layer.p.eps)]


@operator("Interp")
def interp(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer, image = layer_of(node, Interp), x[0]
    begin = -layer.p.pad_beg
    ends = [begin + size for size in layer.part]
    if begin or ends != list(layer.x_shape[2:]):
        image = w.add("Slice", [image, w.numbers([begin] * 2), w.numbers(ends), w.numbers([2, 3])])
    return [_resized(w, image, layer.y_shape[2:], mode="linear", coordinate_transformation_mode="align_corners")]


@operator("Upsample")
def upsample(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, Upsample)
    if layer.masked:
        raise w.cannot(node, "the places of a pooling's winners")
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return [_resized(w, x[0], layer.y_shape[2:], mode="nearest", **how)]


def _resized(w: Writer, x: str, size: tuple[int, ...], **how: str) -> str:
    """An image with rows and columns of another number; the batch stays open."""
    shape = w.add("Concat", [w.add("Shape", [x], start=0, end=2), w.numbers(size)], axis=0)
    return w.add("Resize", [x, "", "", shape], **how)
