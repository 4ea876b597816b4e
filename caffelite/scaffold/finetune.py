"""Starts a project from trained weights: which net they are of, whether their shapes fit, what their training data was
scaled by, and which layers keep them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb, inputs, weights
from ..errors import CaffeliteError
from ..inspection.diff import without_leading_ones
from ..net.graph import Graph
from .network import weights_of

FEW = 200  # images a class up to which lower layers are frozen
LAYER, BLOBS = 100, 7  # fields of NetParameter and LayerParameter


@dataclass
class Trained:
    """A weights file. blobs: by layer; transform: of its data layer, where the file has one."""

    path: Path
    blobs: dict[str, list[np.ndarray]]
    transform: pb.TransformationParameter | None


@dataclass(frozen=True)
class Fit:
    """Layers of a net that a weights file fits (matched), and others with weights (new)."""

    matched: list[str]
    new: list[str]


def read(path: Path) -> Trained:
    """A caffemodel. Errors: it cannot be read; it has no weights."""
    blobs = weights.read_model(path)
    if not blobs:
        raise CaffeliteError(f"{path} has no weights", expected="a caffemodel")
    return Trained(path, blobs, _transform(path))


def _transform(path: Path) -> pb.TransformationParameter | None:
    """The transform_param of the first layer that feeds data."""
    try:
        for number, wire, layer, _ in weights.fields(memoryview(weights.read_bytes(path))):
            if number == LAYER and wire == weights.LENGTH and isinstance(layer, memoryview):
                own = [whole for field, _, _, whole in weights.fields(layer) if field != BLOBS]
                spec = pb.LayerParameter.FromString(b"".join(map(bytes, own)))
                inputs.check_text(spec)
                if spec.HasField("transform_param") and not spec.bottom:
                    return spec.transform_param
    except (ValueError, DecodeError):
        pass  # HDF5 and old files have no layers that say
    return None


def likely_net(trained: Trained, nets: dict[str, pb.NetParameter]) -> str:
    """The net whose layers with weights have the most names and numbers of outputs in common with the file. Errors:
    less than half of any net's layers are in it."""
    weighted = {name: _outputs(blobs[0]) for name, blobs in trained.blobs.items() if blobs[0].ndim > 1}
    scores = {}
    for name, net in nets.items():
        own = {layer.name: p.num_output for layer in net.layer if (p := weights_of(layer))}
        scores[name] = len(own.items() & weighted.items()) / len(own.keys() | weighted.keys())
    best = max(scores, key=scores.__getitem__)
    if scores[best] < 0.5:
        found = ", ".join(list(trained.blobs)[:6])
        remedy = "name the net that they were trained with: -net, or -net FILE with its train_val.prototxt"
        what = f"{trained.path}: these weights are of no shipped net"
        raise CaffeliteError(what, found=f"layers {found}", remedy=remedy)
    return best


def _outputs(weight: np.ndarray) -> int:
    """Of a convolution N×C×H×W, of an inner product N×K, which old files store as 1×1×N×K."""
    return weight.shape[-2] if weight.ndim == 4 and weight.shape[:2] == (1, 1) else weight.shape[0]


def fit(graph: Graph, trained: Trained, last: str, side: int) -> Fit:
    """Compares shapes. Errors: a layer of the same name has other shapes; no layer matches."""
    matched, new = [], []
    for node in graph.nodes:
        shapes = [list(parameter.shape) for parameter in node.layer.param_blobs] if node.params else []
        if not shapes:
            continue
        if node.name not in trained.blobs or node.name == last:
            new.append(node.name)
            continue
        stored = [list(blob.shape) for blob in trained.blobs[node.name]]
        if [*map(without_leading_ones, stored)] != [*map(without_leading_ones, shapes)]:
            raise CaffeliteError(
                f'{trained.path} does not fit layer "{node.name}"',
                expected=", ".join(map(str, shapes)),
                found=", ".join(map(str, stored)),
                remedy=_remedy(node.layer.spec.type, shapes, stored, side),
            )
        matched.append(node.name)
    if not matched:
        what = f"{trained.path}: no layer of the file is in the net"
        raise CaffeliteError(what, found=", ".join(list(trained.blobs)[:6]))
    return Fit(matched, new)


def _remedy(type: str, shapes: list[list[int]], stored: list[list[int]], side: int) -> str:
    if type == "InnerProduct" and shapes[0][:1] == stored[0][-2:-1]:
        return f"the input has {side} pixels here: give the size that the weights were trained on, as in -size 32"
    if type == "Convolution" and shapes[0][:1] == stored[0][:1] and shapes[0][1:2] != stored[0][1:2]:
        return "the weights are for images of another number of channels: give -color or -gray"
    return "the weights are of another net: name it with -net"


def frozen(matched: list[str], learned: list[str], samples_per_class: float) -> tuple[list[str], str]:
    """(layers to freeze, reason): the lower half where images are few, else none."""
    own = [name for name in learned if name in set(matched)]
    if samples_per_class > FEW:
        return [], f"{samples_per_class:.0f} images a class are enough to adapt all layers, slowly"
    half = own[: (len(own) + 1) // 2]
    why = f"{samples_per_class:.0f} images a class are too few to relearn general features"
    return half, why
