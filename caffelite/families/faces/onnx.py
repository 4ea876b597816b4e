"""ONNX operators of the layers of face nets."""

import numpy as np

from ...layers.base.exporting import ALL, Node, Writer, operator
from ...layers.inner_product import NormalizedInnerProduct


@operator("Flip")
def flip(w: Writer, node: Node, x: list[str], _) -> list[str]:
    axes = [axis for axis, flipped in ((2, node.layer.p.flip_height), (3, node.layer.p.flip_width)) if flipped]
    if not axes:
        return x
    slices = [[-1] * len(axes), [ALL] * len(axes), axes, [-1] * len(axes)]
    return [w.add("Slice", [x[0], *(w.numbers(values) for values in slices)])]


@operator("InnerDistance")
def inner_distance(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer, shape = node.layer, node.bottoms[0].shape
    if layer.axis(layer.p.axis, len(shape)) != 1 or layer.p.update_center_only:
        raise w.cannot(node, "labels" if layer.p.update_center_only else f"axis {layer.p.axis}")
    rows = (
        x[1]
        if len(x) > 1
        else w.constant(node, 0, NormalizedInnerProduct.unit_rows(params[0]) if layer.p.normalize else params[0])
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


@operator("LabelSpecificAdd", "LabelSpecificRescale")
def unchanged(w: Writer, node: Node, x: list[str], _) -> list[str]:
    if not node.layer.view:
        raise w.cannot(node, "labels")
    return x[:1]
