"""A binary net without its blobs, and with them again: what rewrites the net leaves every bit of the weights."""

from copy import deepcopy
from pathlib import Path

from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb, inputs
from ..errors import CaffeliteError
from .caffemodel import LENGTH, as_caffe_writes, check_seal, field_bytes, fields

# message: (fields that hold such messages: what they hold; "blob" for a BlobProto)
LAYERS = {"net": {100: "layer", 2: "v1"}, "layer": {7: "blob"}, "v1": {6: "blob", 1: "v0"}, "v0": {50: "blob"}}


def detach(data: bytes, path: str | Path) -> tuple[pb.NetParameter, list[bytes]]:
    """(the net, the bytes of its blobs as Caffe writes them). The ``num`` of a blob in the net is its index among them.
    Checksum and run are left out: it is no file of that run any more. Errors: a damaged file; no net."""
    check_seal(data, Path(path))
    blobs: list[bytes] = []
    try:
        net = pb.NetParameter.FromString(_without_blobs(memoryview(data), blobs))
        inputs.check_text(net)
        known = len(net.layer) or len(net.layers)
    except (DecodeError, ValueError):
        known = 0
    if not known:
        what = f"{path} is no net and no solver that can be read"
        raise CaffeliteError(what, expected="a prototxt, or a binary net or caffemodel")
    net.ClearField("checksum")
    net.ClearField("run")
    return net, blobs


def _without_blobs(data: memoryview, blobs: list[bytes], message: str = "net") -> bytes:
    chunks = []
    for number, wire, value, whole in fields(data):
        held = LAYERS[message].get(number) if wire == LENGTH else None
        if held == "blob":
            chunks.append(field_bytes(number, pb.BlobProto(num=len(blobs)).SerializeToString()))
            blobs.append(as_caffe_writes(bytes(value)))
        else:
            chunks.append(field_bytes(number, _without_blobs(value, blobs, held)) if held else bytes(whole))
    return b"".join(chunks)


def attach(net: pb.NetParameter, blobs: list[bytes]) -> bytes:
    """The bytes of a net of modern layers with the blobs that ``detach`` took from it."""
    rest = deepcopy(net)
    rest.ClearField("layer")
    chunks = [rest.SerializeToString()]
    for layer in net.layer:
        blob_bytes = b"".join(field_bytes(7, blobs[blob.num]) for blob in layer.blobs)
        plain = deepcopy(layer)
        plain.ClearField("blobs")
        chunks.append(field_bytes(100, plain.SerializeToString() + blob_bytes))
    return b"".join(chunks)
