"""The shapes of labels in HDF5 files that are not there, from the layers that read the labels."""

from __future__ import annotations

from .. import caffelite_pb2 as pb
from ..layers import REGISTRY, Shape

SAME_SIZE = ("EuclideanLoss", "SigmoidCrossEntropyLoss")  # both bottoms have as many values


def label_shapes(net: pb.NetParameter) -> dict[str, Shape]:
    """The sample shapes of tops of HDF5Data layers, by top, as far as a loss that reads a top or a part of it decides
    them: as many values as the scores have."""
    tops = dict.fromkeys(top for spec in net.layer if spec.type == "HDF5Data" for top in spec.top)
    sizes = {top: _size(net, top, 0) for top in tops}
    return {top: (size,) for top, size in sizes.items() if size}


def _size(net: pb.NetParameter, blob: str, start: int) -> int:
    """The number of values of a sample that the layers from ``start`` on need in a blob; 0 if they do not decide it."""
    for i, spec in enumerate(net.layer[start:], start):
        if blob not in spec.bottom:
            continue
        if spec.type == "Slice" and spec.top and _axis(spec.slice_param) == 1:
            parts = [_size(net, top, i + 1) or 1 for top in spec.top]
            points = spec.slice_param.slice_point
            return points[-1] + parts[-1] if points else len(parts) * max(parts)
        if spec.type in SAME_SIZE and spec.bottom[0] != blob and (size := _outputs(net, spec.bottom[0], i)):
            return size
    return 0


def _axis(p: pb.SliceParameter) -> int:
    return p.slice_dim if p.HasField("slice_dim") else p.axis


def _outputs(net: pb.NetParameter, blob: str, end: int) -> int:
    """The num_output of the layer before ``end`` that computes a blob, through layers with one bottom; 0: none."""
    for i in range(end - 1, -1, -1):
        spec = net.layer[i]
        if blob not in spec.top:
            continue
        field = REGISTRY[spec.type].field if spec.type in REGISTRY else ""
        size: int = getattr(getattr(spec, field), "num_output", 0) if field else 0
        return size or (_outputs(net, spec.bottom[0], i) if len(spec.bottom) == 1 else 0)
    return 0
