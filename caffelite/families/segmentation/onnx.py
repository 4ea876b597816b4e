"""ONNX operators of the layers of segmentation."""

import numpy as np

from ...layers.base.exporting import EXAMPLES, Node, Writer, layer_of, operator
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


@operator("Upsample", "Unpooling")
def upsample(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, Upsample)
    if layer.masked:
        return [_unpooled(w, node, layer, x)]
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return [_resized(w, x[0], layer.y_shape[2:], mode="nearest", **how)]


def _resized(w: Writer, x: str, size: tuple[int, ...], **how: str) -> str:
    """An image with rows and columns of another number; the batch stays open."""
    shape = w.add("Concat", [w.add("Shape", [x], start=0, end=2), w.numbers(size)], axis=0)
    return w.add("Resize", [x, "", "", shape], **how)


def _unpooled(w: Writer, node: Node, layer: Upsample, x: list[str]) -> str:
    """x at the places of a pooling's winners; not by MaxUnpool, which OpenVINO lacks."""
    free = w.free.get(node.tops[0])
    planes, sides = w.add("Shape", [x[0]], start=0, end=2), w.numbers(layer.y_shape[2:])
    if free:
        if layer.sized:
            raise w.cannot(node, "upsample_h of images of any size")
        sides = w.add("Mul", [w.add("Shape", [x[0]], start=2), w.numbers(layer.factors)])
        less = [int(layer.p.pad_out_h), int(layer.p.pad_out_w)]
        sides = w.add("Sub", [sides, w.numbers(less)]) if any(less) else sides
    flat = w.add("Concat", [planes, w.numbers([-1])], axis=0)
    zeros = w.add("Expand", [w.scalar(0), w.add("Concat", [planes, w.add("ReduceProd", [sides], keepdims=1)], axis=0)])
    exact = w.integers.get(x[1]) or w.add("Cast", [x[1]], to=7)  # float16 has not all of them
    places = w.add("Reshape", [exact, flat])
    filled = w.add("ScatterElements", [zeros, places, w.add("Reshape", [x[0], flat])], axis=2)
    return w.add("Reshape", [filled, w.add("Concat", [planes, sides], axis=0)])


def places(node: Node, rng: np.random.Generator) -> np.ndarray:
    """Places in the planes of an Upsample's top, other ones for each number of a plane."""
    layer, shape = layer_of(node, Upsample), node.bottoms[1].shape
    plane, count = layer.y_shape[2] * layer.y_shape[3], shape[2] * shape[3]
    rows = [rng.permutation(plane)[:count] for _ in range(shape[0] * shape[1])]
    return np.array(rows, np.float32).reshape(shape)


EXAMPLES.update({("Upsample", 1): places, ("Unpooling", 1): places})
