"""Reports an unknown layer type as the only error of its layer: suppresses errors about its unknown parameters."""

from typing import Any

from google.protobuf.message import Message

from ... import caffelite_pb2 as pb
from ...prototxt.textformat import Reader, Unknown
from .layer import REGISTRY


def in_unknown_type(message: Message, unknown: Unknown) -> bool:
    """Whether an unknown field of a net or solver is, or is in, a ``*_param`` of a layer of unknown type."""
    holder: Any = message
    names = (*unknown.path, unknown.name)
    for depth, step in enumerate(unknown.path, 1):
        holder = holder[step] if isinstance(step, int) else getattr(holder, step)
        if isinstance(holder, pb.LayerParameter):
            return bool(holder.type) and holder.type not in REGISTRY and names[depth].endswith("_param")
    return False


def tolerate(message: Message, reader: Reader) -> None:
    """Drops the mistakes about such fields (a ``prototxt.Tolerate``). Building the net reports the type."""
    reader.drop_unknown(lambda unknown: in_unknown_type(message, unknown))
