"""Reports an unknown layer type as the only error of its layer: suppresses errors about its unknown parameters."""

from typing import Any

from google.protobuf.message import Message

from ...prototxt import foreign
from ...prototxt.textformat import Reader, Unknown
from .layer import REGISTRY


def in_unknown_type(message: Message, unknown: Unknown) -> bool:
    """Whether an unknown field of a net or solver is, or is in, a ``*_param`` of a layer of unknown type."""
    holder: Any = message
    names = (*unknown.path, unknown.name)
    for depth, step in enumerate(unknown.path, 1):
        holder = holder[step] if isinstance(step, int) else getattr(holder, step)
        if getattr(getattr(holder, "DESCRIPTOR", None), "name", "") == "LayerParameter":
            unknown_type = bool(holder.type) and holder.type not in REGISTRY and not _of_fork(holder.type)
            return unknown_type and names[depth].endswith("_param")
    return False


def _of_fork(kind: str) -> bool:
    return foreign.current is not None and foreign.current.has_type(kind)


def tolerate(message: Message, reader: Reader) -> None:
    """Drops the mistakes about such fields (a ``prototxt.Tolerate``). Building the net reports the type."""
    reader.drop_unknown(lambda unknown: in_unknown_type(message, unknown))
