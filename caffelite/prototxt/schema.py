"""Adds messages to the schema while a process runs: the ``*_param`` of layer types that users write.

The classes of ``caffelite_pb2`` are made anew, with the added fields among the others, so that reading, checks, near
names, writing and caffemodels treat both alike. Messages that were made before keep their old classes.
"""

import re
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError

F = FieldDescriptorProto
LABELS = {"optional": F.LABEL_OPTIONAL, "repeated": F.LABEL_REPEATED, "required": F.LABEL_REQUIRED}
SCALARS = {
    **{"float": F.TYPE_FLOAT, "double": F.TYPE_DOUBLE, "bool": F.TYPE_BOOL, "string": F.TYPE_STRING},
    **{"int32": F.TYPE_INT32, "int64": F.TYPE_INT64, "uint32": F.TYPE_UINT32, "uint64": F.TYPE_UINT64},
    "bytes": F.TYPE_BYTES,
}
FIRST, LAST = 20_000, (1 << 29) - 1  # field numbers of messages for which nobody has chosen one
_FIELD = re.compile(
    r"(?P<label>optional|repeated|required)\s+(?P<type>[\w.]+)\s+(?P<name>[a-z]\w*)\s*=\s*(?P<number>\d+)\s*"
    r"(?:\[\s*default\s*=\s*(?P<default>\"[^\"]*\"|[^\s\]]+)\s*\])?\s*;"
)
_ENUM = re.compile(r"enum\s+(?P<name>\w+)\s*\{(?P<values>[^{}]*)\}\s*;?")
_VALUE = re.compile(r"(\w+)\s*=\s*(\d+)\s*;")


@dataclass(frozen=True)
class Added:
    """A message that a field of LayerParameter has."""

    number: int
    message: DescriptorProto


def file() -> FileDescriptorProto:
    """The schema of this moment, as a file that imports no other: its options stay, unknown to who reads it."""
    whole = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(whole)
    for field in ("dependency", "extension"):
        whole.ClearField(field)
    return whole


_base = file()
_added: dict[str, Added] = {}  # by the name of the field
users: dict[str, str] = {}  # the types that files of users define: the field of a fork's type of this name, or ""


def has_field(field: str) -> bool:
    """Whether Caffe's schema or one of its forks has the field of LayerParameter."""
    return any(known.name == field for known in _layer(_base).field)


@cache
def fields_of_files(of_solver: bool) -> frozenset[str]:
    """The names of fields that name a file or a folder, of SolverParameter or of all other messages, by the option
    ``names_file`` of the .proto. A field that a user or a fork adds under such a name counts as one."""
    messages = [message for message in _base.message_type if (message.name == "SolverParameter") == of_solver]
    every = (field for message in messages for field in message.field)
    option: Any = pb.names_file
    return frozenset(field.name for field in every if field.options.Extensions[option])


def read_fields(text: str, message: str) -> DescriptorProto:
    """The message of fields and enums as in a .proto file. Errors: a line that is neither."""
    descriptor, plain = DescriptorProto(name=message), re.sub(r"//[^\n]*", "", text)
    for enum in _ENUM.finditer(plain):
        kind = descriptor.enum_type.add(name=enum["name"])
        for name, number in _VALUE.findall(enum["values"]):
            kind.value.add(name=name, number=int(number))
    plain = _ENUM.sub("", plain)
    for match in _FIELD.finditer(plain):
        field = descriptor.field.add(name=match["name"], number=int(match["number"]), label=LABELS[match["label"]])
        _set_type(field, match["type"], descriptor)
        if match["default"]:
            field.default_value = match["default"].strip('"')
    if rest := _FIELD.sub("", plain).strip():
        line = rest.splitlines()[0].strip()
        what = f"{message}: a field cannot be read"
        raise CaffeliteError(what, expected="as in: optional float scale = 1 [default = 1];", found=line)
    return descriptor


def _set_type(field: FieldDescriptorProto, name: str, message: DescriptorProto) -> None:
    """Of a scalar, of an enum of the message, or of a message or enum of the schema."""
    if name in SCALARS:
        field.type = SCALARS[name]
    elif name in [enum.name for enum in message.enum_type]:
        field.type, field.type_name = F.TYPE_ENUM, f".{_base.package}.{message.name}.{name}"
    elif name in [known.name for known in _base.message_type]:
        field.type, field.type_name = F.TYPE_MESSAGE, f".{_base.package}.{name}"
    elif name in [known.name for known in _base.enum_type]:
        field.type, field.type_name = F.TYPE_ENUM, f".{_base.package}.{name}"
    else:
        expected = f"{', '.join(SCALARS)}, an enum, or a message of the schema as FillerParameter"
        raise CaffeliteError(f'{message.name}: field "{field.name}" has an unknown type', expected=expected, found=name)


def add_layer_field(name: str, message: DescriptorProto, number: int | None = None) -> None:
    """Adds the field ``name`` to LayerParameter, or replaces an added one. number: in caffemodels, as the fork has it;
    by default one that follows from the name. Errors: a number that another field has; a message that is none."""
    wanted = Added(number or FIRST + zlib.crc32(name.encode()) % (LAST - FIRST), message)
    if _added.get(name) == wanted:
        return
    others = {field.number: field.name for field in _layer(_base).field if field.name != name}
    others |= {added.number: field for field, added in _added.items() if field != name}
    if wanted.number in others:
        what = f"field {wanted.number} of LayerParameter is {others[wanted.number]}, and cannot be {name}"
        raise CaffeliteError(what, remedy="leave the number out, or give another")
    names = {known.name for known in _base.message_type}
    names |= {added.message.name for field, added in _added.items() if field != name}
    if message.name in names:
        raise CaffeliteError(f"the schema has a message {message.name} already", remedy="give the type another name")
    _load({**_added, name: wanted})


def add_fields_of(field: str, message: DescriptorProto) -> None:
    """Adds to a message the fields of the one that LayerParameter has as ``field``, but for those of names it has."""
    base = next(known.type_name for known in _layer(_base).field if known.name == field).rpartition(".")[2]
    last = max((known.number for known in message.field), default=0)
    for known in next(each for each in _base.message_type if each.name == base).field:
        if known.name not in {own.name for own in message.field}:
            last += 1
            message.field.add().CopyFrom(known)
            message.field[-1].number = last


def _layer(file: FileDescriptorProto) -> DescriptorProto:
    return next(message for message in file.message_type if message.name == "LayerParameter")


def _load(added: dict[str, Added]) -> None:
    """Makes the classes of the schema with these fields."""
    file = FileDescriptorProto()
    file.CopyFrom(_base)
    for name, one in added.items():
        file.message_type.add().CopyFrom(one.message)
        fields = _layer(file).field
        if (old := next((i for i, known in enumerate(fields) if known.name == name), None)) is not None:
            del fields[old]
        field = fields.add(name=name, number=one.number, label=F.LABEL_OPTIONAL, type=F.TYPE_MESSAGE)
        field.type_name = f".{file.package}.{one.message.name}"
    pool = descriptor_pool.DescriptorPool()
    try:
        pool.AddSerializedFile(file.SerializeToString())
        made = pool.FindFileByName(file.name)
    except (TypeError, KeyError) as error:  # an impossible default, a number twice
        raise CaffeliteError(f"a message cannot be added to the schema: {error}") from None
    _added.clear()
    _added.update(added)
    classes = {name: message_factory.GetMessageClass(kind) for name, kind in made.message_types_by_name.items()}
    vars(pb).update(classes, DESCRIPTOR=made)
