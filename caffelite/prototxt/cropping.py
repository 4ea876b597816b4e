"""The offset of a Crop layer of old nets, which aligns the coordinates of its two bottoms.

Source: longjon/caffe (branch future), here HyeonwooNoh/caffe src/caffe/layers/crop_layer.cpp, include/caffe/layer.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from .. import caffelite_pb2 as pb

# output[i · scale + shift] belongs to input[i], along height and along width
Map = tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]

SAME = Fraction(1), Fraction(0)
IDENTITY: Map = (SAME, SAME)
SAME_PLACES = frozenset(
    ("AbsVal BNLL Concat Dropout Eltwise Exp LRN Log Power PReLU ReLU Sigmoid Softmax Split TanH Threshold").split()
)


def aligned_offsets(layers: Sequence[pb.LayerParameter], index: int) -> tuple[int, int]:
    """The offset (height, width) of layer ``index``, a Crop of two bottoms, whose blobs' first bottoms lead to a common
    blob. Errors: ValueError, why there is none."""
    makers: dict[str, pb.LayerParameter] = {}
    for layer in layers[:index]:
        for top in layer.top:
            makers.setdefault(top, layer)
    whole, part = (_maps(name, makers) for name in layers[index].bottom)
    shared = next((name for name in part if name in whole), None)
    if shared is None:
        raise ValueError("its bottoms do not depend on a common blob")
    return _offset(whole[shared][0], part[shared][0]), _offset(whole[shared][1], part[shared][1])


def _offset(whole: tuple[Fraction, Fraction], part: tuple[Fraction, Fraction]) -> int:
    """Where the coordinate 0 of the part is in the whole; both are maps from one blob."""
    scale = whole[0] / part[0]
    offset = whole[1] - part[1] * scale
    if scale != 1:
        raise ValueError(f"its bottoms differ in scale, by {scale}")
    if offset < 0 or offset.denominator != 1:
        raise ValueError(f"its offset would be {float(offset):g}, and must be a whole number of 0 or more")
    return int(offset)


def _maps(name: str, makers: dict[str, pb.LayerParameter]) -> dict[str, Map]:
    """The map from each blob below to blob ``name``, the nearest first."""
    maps = {name: IDENTITY}
    while name in makers and makers[name].bottom:
        layer = makers[name]
        below = layer.bottom[0]
        if below in maps:
            break
        step = _map(layer)
        if step is None:
            break
        (hs, ht), (ws, wt) = maps[name]
        maps[below] = (hs * step[0][0], hs * step[0][1] + ht), (ws * step[1][0], ws * step[1][1] + wt)
        name = below
    return maps


def _map(layer: pb.LayerParameter) -> Map | None:
    """The map from the first bottom of a layer to its top; None: unknown."""
    if layer.type in SAME_PLACES:
        return IDENTITY
    if layer.type == "Crop":
        height, width = layer.crop_param.offset
        return (Fraction(1), Fraction(-height)), (Fraction(1), Fraction(-width))
    if layer.type in ("Convolution", "Deconvolution"):
        p: Any = layer.convolution_param
        sides = [
            (_side(p, "kernel", i), _side(p, "stride", i) or 1, _side(p, "pad", i), _of(p.dilation, i) or 1)
            for i in (0, 1)
        ]
    elif layer.type == "Pooling":
        p = layer.pooling_param
        sides = [(_side(p, "kernel", i), _side(p, "stride", i) or 1, _side(p, "pad", i), 1) for i in (0, 1)]
    else:
        return None
    down = [
        (Fraction(1, stride), (pad - Fraction(dilation * (kernel - 1), 2)) / stride)
        for kernel, stride, pad, dilation in sides
    ]
    if layer.type == "Deconvolution":
        down = [(1 / scale, -shift / scale) for scale, shift in down]
    return down[0], down[1]


def _of(values: Sequence[int], axis: int) -> int:
    return values[axis] if len(values) > 1 else values[0] if values else 0


def _side(p: Any, stem: str, axis: int) -> int:
    """Kernel, stride or pad along height (0) or width (1); 0: not given."""
    own = getattr(p, f"{stem}_{'hw'[axis]}")
    common = getattr(p, "kernel_size" if stem == "kernel" else stem)
    return own or (common if isinstance(common, int) else _of(common, axis))
