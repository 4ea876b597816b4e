"""The schema of a fork, and the one by which prototxts are read beside it: that of the fork and caffelite's, by name.

The two never mix in files: bytes of the fork are read and written by the fork's descriptors alone. The joined schema is
for text, which has names and no numbers.
"""

from functools import cached_property
from pathlib import Path

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import Message

from ..errors import CaffeliteError
from ..prototxt import schema as prototxt_schema
from . import compiler

LAYER, V1_LAYER, NET = "LayerParameter", "V1LayerParameter", "NetParameter"
SPARE = 100_000_000  # numbers of joined fields that are not caffelite's, and of such values of enums
HIDDEN = "fork"  # the field of layers that no text has
FIELD = FieldDescriptorProto


class Schema:
    """The messages of a caffe.proto. path: of the file. descriptor_set: a FileDescriptorSet in the wire format. enum:
    whether the types of layers are values of an enum, as in 2014."""

    def __init__(self, path: Path, files: FileDescriptorSet):
        self.path, self.descriptor_set = path, files.SerializeToString()
        self._files = files
        self._classes = _classes(files, path)
        if missing := [name for name in (NET, LAYER, "SolverParameter") if name not in self._classes]:
            what = f"{path} is no schema of Caffe: it has no {missing[0]}"
            raise CaffeliteError(what, remedy="name the folder of a fork of Caffe")
        kind = self._classes[LAYER].DESCRIPTOR.fields_by_name.get("type")
        self.enum = kind is not None and kind.enum_type is not None
        if not self.enum and "LayerConnection" in self._classes:
            expected = "one with V1 layers (of 2014) or newer"
            raise CaffeliteError(f"{path} is older than the layers that this program runs", expected=expected)

    def message_class(self, name: str) -> type[Message]:
        """The class of a message by the fork's name. Errors: KeyError."""
        return self._classes[name]

    def has(self, name: str) -> bool:
        return name in self._classes

    def name_here(self, name: str) -> str:
        """The name that a message of the fork has in caffelite's schema."""
        return V1_LAYER if self.enum and name == LAYER else name

    def name_there(self, name: str) -> str | None:
        """The reverse; None for a message that the fork does not have."""
        if self.enum and name in (LAYER, V1_LAYER):
            return LAYER if name == V1_LAYER else None
        return name if name in self._classes else None

    @cached_property
    def joined(self) -> dict[str, type[Message]]:
        """The classes of the joined schema by caffelite's names."""
        file = _Joined(self).file
        return _classes(FileDescriptorSet(file=[file]), self.path)

    def messages(self) -> list[DescriptorProto]:
        return [message for file in self._files.file for message in file.message_type]

    def enums(self) -> list[EnumDescriptorProto]:
        return [enum for file in self._files.file for enum in file.enum_type]

    def packages(self) -> list[str]:
        """The packages of the files, the longest first."""
        return sorted({file.package for file in self._files.file if file.package}, key=len, reverse=True)


def read(path: Path) -> Schema:
    """The schema of a caffe.proto, or of a fragment of one. Errors: CaffeliteError, as protoc says it."""
    return Schema(path, compiler.compiled(path))


def bvlc() -> Schema:
    """The schema of BVLC's Caffe, of a folder that has layers and no caffe.proto."""
    return Schema(Path("caffe.proto"), FileDescriptorSet(file=[compiler.bvlc()]))


def _classes(files: FileDescriptorSet, path: Path) -> dict[str, type[Message]]:
    """The classes of all messages, by name."""
    pool = descriptor_pool.DescriptorPool()
    classes: dict[str, type[Message]] = {}
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
            for name, kind in pool.FindFileByName(file.name).message_types_by_name.items():
                classes[name] = message_factory.GetMessageClass(kind)
    except (TypeError, KeyError) as error:
        raise CaffeliteError(f"{path} cannot be used: {error}") from None
    return classes


class _Joined:
    """Makes the joined schema: the fork's fields, then those of caffelite that the fork lacks."""

    def __init__(self, schema: Schema):
        self._schema = schema
        self.file = prototxt_schema.file()
        self._package = self.file.package
        self._known = {message.name: message for message in self.file.message_type}
        self._enums = {enum.name: enum for enum in self.file.enum_type}
        self._moved: dict[str, str] = {}  # enums of the fork by name, where they are
        enums = {enum.name for enum in schema.enums()}
        taken = {message.name for message in schema.messages()} & self._enums.keys() | enums & self._known.keys()
        self._renamed = {name: f"{name}_Of_Fork" for name in taken}  # what is an enum in one, a message in the other
        for enum in schema.enums():
            self._top_enum(enum)
        pairs = [(message, self._known.get(schema.name_here(message.name))) for message in schema.messages()]
        for message, own in pairs:
            if own is not None:
                self._merge_enums(own, message, f".{self._package}.{own.name}")
        for message, own in pairs:
            if own is not None:
                self._merge_fields(own, message)
                if schema.enum and message.name == LAYER:  # so that modern text has the fork's messages too
                    self._merge_fields(self._known[LAYER], _messages_of_types(message))
            else:
                new = self.file.message_type.add()
                new.CopyFrom(message)
                new.name = self._renamed.get(message.name, message.name)
                self._plain(new)
        for name in (LAYER, V1_LAYER):
            fields = self._known[name].field
            del fields[next(i for i, field in enumerate(fields) if field.name == HIDDEN)]

    def _top_enum(self, enum: EnumDescriptorProto) -> None:
        if enum.name in self._enums:
            _add_values(self._enums[enum.name], enum)
        else:
            new = self.file.enum_type.add()
            new.CopyFrom(enum)
            new.name = self._renamed.get(enum.name, enum.name)

    def _merge_enums(self, own: DescriptorProto, other: DescriptorProto, scope: str) -> None:
        """Adds the enums of a message of the fork, in a message of their own where their words are taken."""
        enums = {each.name: each for each in own.enum_type}
        nested = {each.name: each for each in own.nested_type}
        words = {value.name: enum.name for enum in own.enum_type for value in enum.value}
        for enum in other.enum_type:
            taken = any(words.get(value.name, enum.name) != enum.name for value in enum.value)
            if taken:
                holder = self.file.message_type.add(name=f"{own.name}_{enum.name}_Of_Fork")
                holder.enum_type.add().CopyFrom(enum)
                self._moved[f"{scope}.{enum.name}"] = f".{self._package}.{holder.name}.{enum.name}"
                continue
            if enum.name in enums:
                _add_values(enums[enum.name], enum)
            else:
                own.enum_type.add().CopyFrom(enum)
            words |= {value.name: enum.name for value in enum.value}
        for inner in other.nested_type:
            if inner.name in nested:
                self._merge_enums(nested[inner.name], inner, f"{scope}.{inner.name}")

    def _merge_fields(self, own: DescriptorProto, other: DescriptorProto) -> None:
        """Joins the fields of a message of the fork with those of caffelite's."""
        nested = {each.name: each for each in own.nested_type}
        for inner in other.nested_type:
            if inner.name in nested:
                self._merge_fields(nested[inner.name], inner)
            else:
                new = own.nested_type.add()
                new.CopyFrom(inner)
                self._plain(new)
        at = {field.name: i for i, field in enumerate(own.field)}
        for i, field in enumerate(other.field):
            copied = FIELD()
            copied.CopyFrom(field)
            self._retype(copied)
            if field.name not in at:
                copied.number = SPARE + i
                own.field.add().CopyFrom(copied)
                continue
            mine = own.field[at[field.name]]
            same = (mine.type, mine.type_name, mine.label) == (copied.type, copied.type_name, copied.label)
            copied.number = mine.number if same else SPARE + i
            mine.CopyFrom(copied)

    def _plain(self, message: DescriptorProto) -> None:
        """A message of the fork's own: types by the names here, no oneofs and extensions."""
        for name in ("extension", "extension_range", "oneof_decl", "reserved_range", "reserved_name"):
            message.ClearField(name)
        for field in message.field:
            self._retype(field)
        for inner in message.nested_type:
            self._plain(inner)

    def _retype(self, field: FieldDescriptorProto) -> None:
        """The types of a field by the names here."""
        for name in ("oneof_index", "proto3_optional", "json_name", "options"):
            field.ClearField(name)
        if not field.type_name:
            return
        rest = field.type_name.removeprefix(".")
        package = next((each for each in self._schema.packages() if rest.startswith(f"{each}.")), "")
        first, *more = rest.removeprefix(f"{package}." if package else "").split(".")
        name = ".".join(["", self._package, self._renamed.get(first, self._schema.name_here(first)), *more])
        field.type_name = self._moved.get(name, name)


def _messages_of_types(layer: DescriptorProto) -> DescriptorProto:
    """A message of layers with the messages of its types alone."""
    fields = (field for field in layer.field if field.type == FIELD.TYPE_MESSAGE and field.name.endswith("_param"))
    return DescriptorProto(name=layer.name, field=fields)


def _add_values(own: EnumDescriptorProto, other: EnumDescriptorProto) -> None:
    """Adds the values that an enum lacks, under numbers of their own."""
    names = {value.name for value in own.value}
    for i, value in enumerate(other.value):
        if value.name not in names:
            own.value.add(name=value.name, number=SPARE + i)
