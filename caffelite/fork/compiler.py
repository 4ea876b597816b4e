"""Compiles the caffe.proto of a fork: to descriptors, by protoc."""

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from .. import inputs
from ..errors import CaffeliteError, Collector, Where, missing_extra, printable
from ..prototxt import schema
from . import history

LARGEST = 16 << 20  # bytes of a caffe.proto
SECONDS = 60
FRAGMENT = "Fragment_"  # before the name of a message that a fragment adds to
_MESSAGE = re.compile(r"^([ \t]*message[ \t]+)(\w+)(?=\s*\{)", re.MULTILINE)


def compiled(proto: Path) -> FileDescriptorSet:
    """The messages of a caffe.proto in one file, the last of the set, with those that it imports before it. A fragment,
    which has no NetParameter, is joined with BVLC's messages. Errors: what protoc says, with its place; grpcio-tools is
    not installed."""
    if find_spec("grpc_tools") is None:
        raise missing_extra("grpcio-tools", "fork", "the caffe.proto of a fork")
    try:
        text = inputs.read(proto, LARGEST).decode("utf-8-sig", "replace").replace("\0", " ")
    except OSError as error:
        raise CaffeliteError(f"cannot read {proto}: {inputs.reason(error).lower()}") from None
    if re.search(r"^\s*message\s+NetParameter\b", text, re.MULTILINE):
        return _run(text, proto)
    return FileDescriptorSet(file=[_joined(text, proto)])


def _run(text: str, proto: Path, base: FileDescriptorProto | None = None) -> FileDescriptorSet:
    """Compiles the text of a file. base: a file that it may import."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "caffe.proto").write_text(text, encoding="utf-8")
        out, sources = folder / "set", [f"-I{folder}", f"-I{proto.parent.resolve()}"]
        if proto.resolve().parts[-3:-1] == ("caffe", "proto"):
            sources.append(f"-I{proto.resolve().parents[2]}")
        if base is not None:
            (folder / "base").write_bytes(FileDescriptorSet(file=[base]).SerializeToString())
            sources = [f"--descriptor_set_in={folder / 'base'}", f"-I{folder}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *sources, "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={out}", str(folder / "caffe.proto")],
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
                cwd=folder,
            )
            if done.returncode:
                raise _mistakes(done.stderr.decode(errors="replace"), proto)
            return FileDescriptorSet.FromString(out.read_bytes())
        except (OSError, subprocess.TimeoutExpired, DecodeError) as error:
            raise CaffeliteError(f"{proto} cannot be compiled: {error}") from None


def _mistakes(text: str, proto: Path) -> CaffeliteError:
    """What protoc says as mistakes with their places."""
    collector = Collector()
    for line in text.splitlines():
        match = re.match(r"(?:\S*/)?([\w.-]+\.proto):(?:(\d+):(\d+):)?\s*(.+)", line)
        if match and not match[4].startswith("warning"):
            file = proto if match[1] == "caffe.proto" else match[1]
            where = Where(str(file), int(match[2] or 0), int(match[3] or 0))
            collector.add(where.error(printable(match[4].rstrip("."), keep="")))
    try:
        collector.raise_any()
    except CaffeliteError as error:
        return error
    return CaffeliteError(f"{proto} cannot be compiled", found=printable(text.strip()[:200], keep="") or "no reason")


# Fragments: a few messages, and fields of LayerParameter, that a user pastes into BVLC's caffe.proto


def _joined(text: str, proto: Path) -> FileDescriptorProto:
    """BVLC's schema with the messages of a fragment, and its fields in messages of BVLC's."""
    base = bvlc()
    known = {message.name for message in base.message_type}
    body = re.sub(r"^\s*(?:syntax|package|import|option)\b[^;{]*;", "", text, flags=re.MULTILINE)
    body = _MESSAGE.sub(lambda m: f"{m[1]}{FRAGMENT if m[2] in known else ''}{m[2]}", body)
    whole = f'syntax = "proto2"; package caffe; import "bvlc.proto"; {body}'
    made = _run(whole, proto, base).file[-1]
    for message in made.message_type:
        name = message.name.removeprefix(FRAGMENT)
        if name == message.name:
            base.message_type.add().CopyFrom(message)
        else:
            _extend(next(each for each in base.message_type if each.name == name), message)
    base.enum_type.extend(made.enum_type)
    for field in _fields(base):
        field.type_name = field.type_name.replace(f".{FRAGMENT}", ".")
    base.name = "caffe.proto"
    return base


def bvlc() -> FileDescriptorProto:
    """The schema of BVLC's Caffe: that of this program without what it adds, in the package caffe."""
    file = schema.file()
    messages = [message for message in file.message_type if history.words(message.name) is not None]
    for message in messages:
        words = history.words(message.name) or frozenset()
        _keep(message.field, [field for field in message.field if field.name in words])
        _keep(message.enum_type, [enum for enum in message.enum_type if enum.value[0].name in words])
        for enum in message.enum_type:
            _keep(enum.value, [value for value in enum.value if value.name in words])
    _keep(file.message_type, messages)
    used = {field.type_name.rpartition(".")[2] for field in _fields(file)}
    _keep(file.enum_type, [enum for enum in file.enum_type if enum.name in used])
    for field in _fields(file):
        field.type_name = field.type_name.replace(f".{file.package}.", ".caffe.", 1)
    file.package, file.name = "caffe", "bvlc.proto"
    return file


def _keep(values: Any, kept: list) -> None:
    """Leaves only these elements of a repeated field."""
    copies = [type(each).FromString(each.SerializeToString()) for each in kept]
    del values[:]
    values.extend(copies)


def _extend(message: DescriptorProto, more: DescriptorProto) -> None:
    """Adds fields, enums and messages; they take the place of fields with their names or numbers."""
    names, numbers = {field.name for field in more.field}, {field.number for field in more.field}
    kept = [field for field in message.field if field.name not in names and field.number not in numbers]
    _keep(message.field, [*kept, *more.field])
    for kind in ("enum_type", "nested_type"):
        new = {each.name for each in getattr(more, kind)}
        rest = [each for each in getattr(message, kind) if each.name not in new]
        _keep(getattr(message, kind), [*rest, *getattr(more, kind)])


def _fields(file: FileDescriptorProto) -> list[FieldDescriptorProto]:
    """All fields of a file that have a type by name."""
    waiting, fields = list(file.message_type), []
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        fields += [field for field in message.field if field.type_name]
    return fields
