"""Converts a message to the one of the same name in another schema, field by field, by name."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message

F = FieldDescriptor
INTEGERS = frozenset(
    (F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32, F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT32)
    + (F.TYPE_FIXED32, F.TYPE_UINT64, F.TYPE_FIXED64)
)
REALS = frozenset((F.TYPE_FLOAT, F.TYPE_DOUBLE))
TEXTS = frozenset((F.TYPE_STRING, F.TYPE_BYTES))


class Leftover(NamedTuple):
    """A value that the other schema cannot hold: its path, its field, itself, and the message that has it."""

    path: tuple
    field: FieldDescriptor
    value: Any
    holder: Message


class Unfit(Exception):
    """A value that a field cannot take."""


def convert(source: Message, target: Message, path: tuple = ()) -> Iterator[Leftover]:
    """Copies all fields that the target's message has too, and yields the others. path: of the source."""
    if same(source.DESCRIPTOR, target.DESCRIPTOR):
        target.MergeFromString(source.SerializePartialToString())  # what is required may be missing
        return
    fields: Any = target.DESCRIPTOR.fields_by_name
    for field, value in source.ListFields():
        if field.name not in fields:
            yield Leftover((*path, field.name), field, value, source)
        elif field.message_type:
            yield from _messages(source, field, value, target, fields[field.name], path)
        else:
            yield from _scalars(source, field, value, target, fields[field.name], path)


def repeated(field: FieldDescriptor) -> bool:
    return field.name in _repeated(field.containing_type)


@cache
def _repeated(message: Descriptor) -> frozenset[str]:
    proto = DescriptorProto()  # the descriptor spells labels differently in protobuf 5 and 7
    message.CopyToProto(proto)
    return frozenset(field.name for field in proto.field if field.label == FieldDescriptorProto.LABEL_REPEATED)


def _messages(
    source: Message, field: FieldDescriptor, value: Any, target: Message, to: FieldDescriptor, path: tuple
) -> Iterator[Leftover]:
    several = repeated(field)
    parts = list(value) if several else [value]
    if not to.message_type or not repeated(to) and len(parts) > 1:
        yield Leftover((*path, field.name), field, value, source)
        return
    holder = getattr(target, field.name)
    for i, part in enumerate(parts):
        new = holder.add() if repeated(to) else holder
        new.SetInParent()
        yield from convert(part, new, (*path, field.name, i) if several else (*path, field.name))


def _scalars(
    source: Message, field: FieldDescriptor, value: Any, target: Message, to: FieldDescriptor, path: tuple
) -> Iterator[Leftover]:
    values = list(value) if repeated(field) else [value]
    try:
        converted = [scalar(field, each, to) for each in values]
    except Unfit:
        yield Leftover((*path, field.name), field, value, source)
        return
    more = f"more_{field.name}"  # of a field that a fork repeats, and Caffe does not
    if repeated(to):
        getattr(target, field.name).extend(converted)
    elif len(converted) == 1:
        setattr(target, field.name, converted[0])
    elif converted and more in target.DESCRIPTOR.fields_by_name:
        setattr(target, field.name, converted[0])
        getattr(target, more).extend(converted[1:])
    elif converted:
        yield Leftover((*path, field.name), field, value, source)


def scalar(field: FieldDescriptor, value: Any, to: FieldDescriptor) -> Any:
    """A value of one field as that of another. Errors: Unfit."""
    if to.message_type:
        raise Unfit
    if field.enum_type or to.enum_type:
        return _of_enum(field.enum_type, value, to.enum_type)
    kind, wanted = field.type, to.type
    if (kind in TEXTS) != (wanted in TEXTS):
        raise Unfit
    if wanted in TEXTS:
        if kind == wanted:
            return value
        return value.encode() if wanted == F.TYPE_BYTES else _decoded(value)
    if wanted in REALS:
        return float(value)
    if value != int(value) or wanted == F.TYPE_BOOL and value not in (0, 1):
        raise Unfit
    return bool(value) if wanted == F.TYPE_BOOL else _in_range(int(value), wanted)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unfit from None


def _of_enum(enum: EnumDescriptor | None, value: Any, to: EnumDescriptor | None) -> int:
    known = enum.values_by_number.get(value) if enum else None
    if known is None or to is None or known.name not in to.values_by_name:
        raise Unfit
    return to.values_by_name[known.name].number


def _in_range(value: int, kind: int) -> int:
    bits = 32 if kind in (F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32, F.TYPE_UINT32, F.TYPE_FIXED32) else 64
    signed = kind not in (F.TYPE_UINT32, F.TYPE_FIXED32, F.TYPE_UINT64, F.TYPE_FIXED64)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise Unfit
    return value


@cache
def same(one: Descriptor, other: Descriptor) -> bool:
    """Whether two messages, with those in them, have the same fields in the wire format."""
    return _same(one, other, frozenset())


def _same(one: Any, other: Any, within: frozenset) -> bool:
    if one is other or (one.full_name, other.full_name) in within:
        return True
    within |= {(one.full_name, other.full_name)}
    mine, its = ({field.name: field for field in each.fields} for each in (one, other))
    return mine.keys() == its.keys() and all(_same_field(field, its[name], within) for name, field in mine.items())


def _same_field(one: FieldDescriptor, other: FieldDescriptor, within: frozenset) -> bool:
    if (one.number, one.type, repeated(one)) != (other.number, other.type, repeated(other)):
        return False
    if one.enum_type and other.enum_type:
        return [(v.name, v.number) for v in one.enum_type.values] == [
            (v.name, v.number) for v in other.enum_type.values
        ]
    return not one.message_type or _same(one.message_type, other.message_type, within)
