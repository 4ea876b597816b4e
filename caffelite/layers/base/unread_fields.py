"""Fields of a layer that have no effect: messages of other types, and fields of loss_param that it does not read."""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message

from ...errors import CaffeliteError
from ...prototxt import say_once
from ...prototxt.families import python_layers
from .feeding import is_input
from .fields_read import names_read, of_this_package
from .layer import REGISTRY, Layer

SHARED = ("loss_param", "transform_param")  # messages that several types read besides their own


def without_effect(layer: Layer) -> Iterator[CaffeliteError]:
    """For each message, and each field of loss_param, that a layer of this package does not read: what it is, and as
    the remedy where it belongs. Of its own message, fields that another type reads in its place."""
    spec = layer.spec
    if spec.HasField("fork"):
        return
    yield from _of_own_message(layer)
    messages = [(field.name, value) for field, value in spec.ListFields() if field.name.endswith("_param")]
    if not any(name != layer.field for name, _ in messages) or not of_this_package(type(layer)):
        return
    kind: Any = type(layer)  # mypy takes no class for hashable
    read = names_read(kind)
    for name, value in messages:
        if name == layer.field or is_input(spec) and name == "transform_param":  # which deploy nets read
            continue
        if name == "python_param" and (value.module, value.layer) in python_layers():  # which this layer replaces
            continue
        if name not in read:
            yield layer.error(f"does not read {name}", name, outer=True, remedy=_place(layer, name, value, read))
        elif name == "loss_param":
            for field, _ in value.ListFields():
                if field.name not in read:
                    what = f"does not read {field.name} of loss_param"
                    yield layer.error(what, name, field.name, outer=True, remedy=_own(layer, field.name) or "drop it")


def warn(layers: Iterable[Layer]) -> None:
    """Logs what has no effect in the layers of a net that is opened, each once per process."""
    for layer in layers:
        for one in without_effect(layer):
            say_once(str(one))


def _of_own_message(layer: Layer) -> Iterator[CaffeliteError]:
    """Fields of the layer's own message that another type reads."""
    for field, _ in layer.p.ListFields() if layer.unread else ():
        if kind := layer.unread.get(field.name):
            yield layer.error(f"does not read {field.name}", field.name, remedy=f'drop it: type "{kind}" reads it')


def _own(layer: Layer, field: str) -> str:
    """That the layer's own message has a field of this name; "" where it has none."""
    own = getattr(layer.spec, layer.field).DESCRIPTOR.fields_by_name if layer.field else ()
    return f"{layer.field} has {field}" if field in own else ""


def _place(layer: Layer, name: str, value: Message, read: frozenset[str]) -> str:
    """Where a message without effect belongs."""
    fields = [field.name for field, _ in value.ListFields()]
    if fields and (own := _own(layer, fields[0])):
        return own
    for message in SHARED:
        if fields and message in read and fields[0] in getattr(layer.spec, message).DESCRIPTOR.fields_by_name:
            return f"{message} has {fields[0]}"
    if name == "loss_param":
        return "drop it: losses read it"
    types = [kind for kind in REGISTRY if REGISTRY[kind].field == name]
    types.sort(key=lambda kind: (".families." in REGISTRY[kind].__module__, len(kind)))
    return f'drop it: type "{types[0]}" reads it' if types else "drop it"
