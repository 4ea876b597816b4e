"""Removes from a message what only caffelite reads, so that Caffe's parser accepts the text."""

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

OWN = 8000  # fields and values of enums from this number on are unknown to BVLC Caffe
Path = tuple[str | int, ...]


def remove_own_fields(message: Message) -> list[tuple[Path, str]]:
    """Removes all fields that BVLC Caffe does not have, in place. Returns the path of each and what was done.

    A value that only caffelite knows, such as ``backend: ARRAYS``, stays and is among them.
    """
    return list(_removed(message, ()))


def _removed(message: Message, path: Path) -> Iterator[tuple[Path, str]]:
    for field, value in message.ListFields():
        at = (*path, field.name)
        if field.number >= OWN:
            message.ClearField(field.name)
            yield at, f"{field.name} left out: Caffe does not have it"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            repeated = not isinstance(value, Message)
            for i, part in enumerate(value if repeated else [value]):
                yield from _removed(part, (*at, i) if repeated else at)
        elif field.type == FieldDescriptor.TYPE_ENUM:
            enum = field.enum_type
            assert enum is not None  # by the field's type
            for number in [value] if isinstance(value, int) else value:
                if number >= OWN:
                    name = enum.values_by_number[number].name
                    yield at, f"{field.name}: {name} stays, but Caffe does not know this value"
