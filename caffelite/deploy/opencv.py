"""Nets as OpenCV 4 reads prototxts: it does not know all defaults of SSD's fields, and has other layers than SegNet."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from ..net.graph import Graph, Node

# By the name of a layer's parameter: fields that OpenCV demands, or takes with another default
FIELDS = {
    "detection_output_param": ("share_location", "background_label_id", "code_type", "keep_top_k", "nms_param"),
    "nms_param": ("nms_threshold", "top_k"),
    "prior_box_param": ("flip", "clip", "offset"),
}
EVERY = 1 << 20  # boxes: OpenCV has no word for all of them
REMEDY = "export it as ONNX, which OpenCV 5 reads: caffelite export"
Blobs = dict[str, list[np.ndarray]]


def written_out(message: pb.NetParameter, graph: Graph) -> dict[str, str]:
    """Writes these fields with their values, and SegNet's layers as OpenCV names them: BN as BatchNorm and Scale,
    Upsample and Unpooling as MaxUnpool. graph: the net that the message was made of. Returns the Scale of each BN: such
    a net needs the weights of `split_blobs`. Errors: a layer that OpenCV cannot read."""
    nodes = {node.name: node for node in graph.nodes}
    layers, taken = list(message.layer), {layer.name for layer in message.layer}
    scales = {}
    del message.layer[:]
    for layer in layers:
        for field, value in layer.ListFields():
            if field.name in FIELDS:
                _write(value, FIELDS[field.name])
        made = [layer]
        if layer.type == "BN":
            made = _split(layer, nodes[layer.name], taken)
            scales[layer.name] = made[-1].name
        elif layer.type in ("Upsample", "Unpooling"):
            made = [_max_unpool(layer, nodes[layer.name])]
        message.layer.extend(made)
    return scales


def _write(message: Message, names: tuple[str, ...]) -> None:
    for name in names:
        field = message.DESCRIPTOR.fields_by_name[name]
        value = getattr(message, name)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            _write(value, FIELDS[name])
        elif name in ("top_k", "keep_top_k") and (value < 0 or not message.HasField(name)):
            setattr(message, name, EVERY)
        else:
            setattr(message, name, value)


def _split(layer: pb.LayerParameter, node: Node, taken: set[str]) -> list[pb.LayerParameter]:
    """A BN as a BatchNorm and a Scale, of no name that is taken; as a Scale alone where it has no moments."""
    bn: Any = node.layer
    if bn.couples_samples:
        what = f'layer "{layer.name}" (BN) takes the moments of the batch, which OpenCV does not compute'
        raise CaffeliteError(what, remedy="compute the moments of the data, and write bn_mode: INFERENCE")
    name = f"{layer.name}/scale"
    while name in taken:
        name += "_"
    taken.add(name)
    scale = pb.LayerParameter(name=name, type="Scale", bottom=layer.top, top=layer.top, scale_param={"bias_term": True})
    if bn.plain:
        scale.name, scale.bottom[:] = layer.name, layer.bottom
        return [scale]
    norm = pb.LayerParameter(name=layer.name, type="BatchNorm", bottom=layer.bottom, top=layer.top)
    norm.batch_norm_param.use_global_stats, norm.batch_norm_param.eps = True, bn.eps
    return [norm, scale]


def _max_unpool(layer: pb.LayerParameter, node: Node) -> pb.LayerParameter:
    if len(layer.bottom) != 2:
        what = f'layer "{layer.name}" ({layer.type}) with one bottom is none that OpenCV reads'
        raise CaffeliteError(what, remedy=REMEDY)
    made = pb.LayerParameter(name=layer.name, type="MaxUnpool", bottom=layer.bottom, top=layer.top)
    before, after = node.bottoms[0].shape[2:], node.tops[0].shape[2:]
    for side, few, many in zip("hw", before, after, strict=True):
        stride = max(many // few, 1)
        kernel = many - (few - 1) * stride  # OpenCV's top has (few - 1) stride + kernel rows
        for name, value in (("k", kernel), ("stride", stride), ("pad", 0)):
            setattr(made.max_unpool_param, f"pool_{name}_{side}", value)
    return made


def split_blobs(scales: Mapping[str, str], stored: Iterable[tuple[Node, list[np.ndarray]]]) -> Blobs:
    """The parameters by layer of a net that `written_out` wrote. scales: as it returned; stored: the parameters of the
    net that it was made of."""
    blobs: Blobs = {}
    for node, arrays in stored:
        if node.name not in scales:
            blobs[node.name] = arrays
            continue
        scale, bias, *moments = (array.reshape(-1) for array in arrays)
        if moments:
            blobs[node.name] = [*moments, np.ones(1, np.float32)]
        blobs[scales[node.name]] = [scale, bias]
    return blobs
