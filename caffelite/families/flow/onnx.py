"""ONNX operators of the layers of optical flow."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base.exporting import Node, Writer, layer_of, operator
from .correlation import Correlation
from .flow_warp import BetweenCorners, FlowWarp, NearestCorners

END = np.iinfo(np.int64).max  # of a Slice that reaches to the last element


@operator("Correlation", "Correlation1D")
def correlation(w: Writer, node: Node, x: list[str], _) -> list[str]:
    """A mean over channels for each displacement, then over the patches of all of them at once."""
    layer = layer_of(node, Correlation)
    pads = [0, 0, *(pad + more for pad, more in zip(layer.pad, layer.before, strict=True)), 0, 0, *layer.pad]
    a, b = (w.add("Pad", [image, w.numbers(pads)], mode="constant") if any(pads) else image for image in x)

    def moved(image: str, shift: tuple[int, ...]) -> str:
        sides = list(zip(layer.reach, layer.before, shift, strict=True))
        starts = [reach + more + by for reach, more, by in sides]
        ends = [by - reach if by < reach else END for reach, _, by in sides]
        return w.add("Slice", [image, w.numbers(starts), w.numbers(ends), w.numbers([2, 3])])

    here, maps = moved(a, (0, 0)), []
    for shift in layer.shifts:
        pair = [here, moved(b, shift)]
        subtracts = layer.p.correlation_type == pb.CorrelationParameter.SUBTRACT
        values = w.add("Abs", [w.add("Sub", pair)]) if subtracts else w.add("Mul", pair)
        maps.append(w.add("ReduceMean", [values], axes=[1], keepdims=1))
    costs = w.add("Concat", maps, axis=1)
    side, stride = layer.p.kernel_size, layer.p.stride_1
    if side == stride == 1:
        return [costs]
    return [w.add("AveragePool", [costs], kernel_shape=[side] * 2, strides=[stride] * 2)]


@operator("ChannelNorm")
def channel_norm(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("ReduceL2", x, axes=[1], keepdims=1)]


@operator("NegReLU")
def below_zero(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Neg", [w.add("LeakyRelu", [w.add("Neg", x)], alpha=node.layer.p.negative_slope)])]


@operator("FlowWarp", "Warp")
def warp(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer, (height, width) = layer_of(node, FlowWarp), node.bottoms[0].shape[2:]
    if w.free.get(node.bottoms[0]):
        raise w.cannot(node, "images of any size")
    here = np.stack(np.meshgrid(np.arange(width), np.arange(height))).astype(np.float32)
    places = w.add("Add", [x[1], w.array(f"places {height}x{width}", here[None])])
    unknown = _any(w, w.add("IsNaN", [places]))
    sizes = w.array(f"sizes {height}x{width}", np.array([width, height], np.float32).reshape(1, 2, 1, 1))
    last = w.add("Sub", [sizes, w.scalar(1)])
    kind = layer.corners()
    if issubclass(kind, NearestCorners):
        places = w.add("Min", [w.add("Max", [places, w.scalar(0)]), last])
    too_far = ["Greater", last] if issubclass(kind, BetweenCorners) else ["GreaterOrEqual", sizes]
    beyond = w.add("Or", [w.add("Less", [places, w.scalar(0)]), w.add(too_far[0], [places, too_far[1]])])
    outside = _any(w, w.add("Or", [beyond, w.add("IsNaN", [places])]))
    safe = w.add("Where", [outside, w.scalar(0), places])
    steps = w.add("Div", [safe, w.add("Max", [last, w.scalar(1)])])
    grid = w.add("Sub", [w.add("Mul", [steps, w.scalar(2)]), w.scalar(1)])
    grid = w.add("Transpose", [grid], perm=[0, 2, 3, 1])
    made = w.add("GridSample", [x[0], grid], align_corners=1, mode="bilinear", padding_mode="border")
    made = w.add("Where", [outside, w.scalar(float(layer.fill())), made])
    return [w.add("Where", [unknown, w.scalar(float("nan")), made])]


def _any(w: Writer, mask: str) -> str:
    """Whether one of the two coordinates (N, 2, H, W) has it."""
    return w.add("Cast", [w.add("ReduceMax", [w.add("Cast", [mask], to=1)], axes=[1], keepdims=1)], to=9)
