"""Depthwise convolutions and ReLU6 in files of forks."""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, unchanged

CONVOLUTIONS = "ConvolutionDepthwise", "DepthwiseConvolution"


def _relu6(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """``relu6`` of a ReLU, of Synopsys Caffe."""
    changes = unchanged()
    if layer.relu_param.relu6:
        changes.dialects.append("relu6 of a ReLU")
        layer.relu_param.ClearField("relu6")
        layer.type, changes.moves["relu_param",] = "ReLU6", ("relu6_param",)
        layer.relu6_param.CopyFrom(layer.relu_param)
        layer.ClearField("relu_param")
    return changes


CHANGES = {"ReLU": _relu6}
