"""ONNX operators of the layers of optical flow."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base.exporting import Node, Writer, layer_of, operator
from .correlation import Correlation

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
