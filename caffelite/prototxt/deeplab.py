"""Fields of the first Deeplab's Caffe, as those that Caffe and its later version have.

Source: src/caffe/proto/caffe.proto and src/caffe/layers/image_seg_data_layer.cpp, as in TheLegendAli/DeepLab-Context;
yangguorun/SegStereo src/caffe/layers/hole_conv_layer.cpp.
"""

from __future__ import annotations

from typing import Any

from .. import caffelite_pb2 as pb
from .volumes import Changes, Path

HOLES = ("hole", "hole_h", "hole_w")


def modernise(layer: pb.LayerParameter) -> Changes:
    changes = Changes("", {}, [], [])
    p, data = layer.convolution_param, layer.image_data_param
    if layer.type == "HoleConvolution":  # SegStereo, which has a Convolution without them
        layer.type, changes = "Convolution", changes._replace(dialect="HoleConvolution")
    if names := [name for name in HOLES if p.HasField(name)]:
        changes = changes._replace(dialect=changes.dialect or f"{names[0]} of a convolution")
        _holes(p, names, changes.moves, changes.mistakes)
    if data.HasField("has_label"):
        changes = changes._replace(dialect=changes.dialect or "has_label of image_data_param")
        changes.moves["image_data_param", "has_label"] = ("image_data_param", "label_type")
        if not data.has_label and not data.HasField("label_type"):
            data.label_type = pb.ImageDataParameter.NONE
        data.ClearField("has_label")
    return changes


def _holes(p: pb.ConvolutionParameter, names: list[str], moves: dict[Path, Path], mistakes: list[Any]) -> None:
    """The steps between the weights of a kernel, now dilation."""
    if p.dilation or ("hole" in names and len(names) > 1):
        what = f"{'dilation' if p.dilation else 'hole'} together with {names[-1]}"
        mistakes.append((what, ("convolution_param", names[-1]), {"remedy": "keep one of them"}))
        return
    both = "hole" in names
    for i, name in enumerate(names if both else HOLES[1:]):
        p.dilation.append(getattr(p, name))
        moves["convolution_param", name] = ("convolution_param", "dilation", i)
    for name in names:
        p.ClearField(name)
