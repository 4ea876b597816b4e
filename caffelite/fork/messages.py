"""C++ message classes of a fork's caffe.proto, with protobuf's names, over the runtime of ``shim/protobuf.hpp``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet

KEYWORDS = frozenset(
    "alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default delete do "
    "double else enum explicit export extern false float for friend goto if inline int long mutable namespace new "
    "noexcept not nullptr operator or private protected public register return short signed sizeof static struct "
    "switch template this throw true try typedef typeid typename union unsigned using virtual void volatile while "
    "xor".split()
)
F = FieldDescriptorProto
# C++ type and encoding of the scalar types
SCALARS = {
    F.TYPE_DOUBLE: ("double", "FIXED"),
    F.TYPE_FLOAT: ("float", "FIXED"),
    F.TYPE_INT64: ("google::protobuf::int64", "VARINT"),
    F.TYPE_UINT64: ("google::protobuf::uint64", "VARINT"),
    F.TYPE_INT32: ("google::protobuf::int32", "VARINT"),
    F.TYPE_UINT32: ("google::protobuf::uint32", "VARINT"),
    F.TYPE_FIXED64: ("google::protobuf::uint64", "FIXED"),
    F.TYPE_FIXED32: ("google::protobuf::uint32", "FIXED"),
    F.TYPE_SFIXED64: ("google::protobuf::int64", "FIXED"),
    F.TYPE_SFIXED32: ("google::protobuf::int32", "FIXED"),
    F.TYPE_SINT64: ("google::protobuf::int64", "ZIGZAG"),
    F.TYPE_SINT32: ("google::protobuf::int32", "ZIGZAG"),
    F.TYPE_BOOL: ("bool", "VARINT"),
}
PB = "google::protobuf::"


@dataclass(frozen=True)
class Enum:
    """An enum: its C++ name, the message around it ("" for none) and its name there."""

    name: str
    outer: str
    local: str
    values: Sequence[tuple[str, int]]

    def value(self, name: str) -> str:
        """A value's name in C++'s namespace."""
        return f"{self.name}_{name}" if self.outer else name


@dataclass(frozen=True)
class MessageType:
    """A message: its C++ name and the descriptor."""

    name: str
    descriptor: DescriptorProto


def sources(descriptors: bytes) -> tuple[str, str]:
    """Text of caffe.pb.h and caffe.pb.cc for a serialized FileDescriptorSet."""
    files = FileDescriptorSet.FromString(descriptors).file
    package = next((each.package for each in files if each.message_type), "caffe")
    enums: list[Enum] = []
    types: list[MessageType] = []
    for file in files:
        enums += [_enum(each, "") for each in file.enum_type]
        for message in file.message_type:
            _collect(message, "", enums, types)
    prefix = f".{package}." if package else "."
    by_name = {each.name: each for each in enums}
    header = "\n".join([*_head(package, types), *(line for each in enums for line in _enum_lines(each))])
    classes = "\n".join(_class(each, by_name, prefix) for each in types)
    header += f"\n{classes}\n{_close(package)}\n"
    code = '#include "caffe/proto/caffe.pb.h"\n' + _open(package)
    code += "\n".join(_enum_code(each) for each in enums) + "\n"
    code += "\n".join(_code(each) for each in types)
    return header, code + _close(package) + "\n"


def _open(package: str) -> str:
    return "".join(f"namespace {each} {{\n" for each in package.split(".") if each)


def _close(package: str) -> str:
    return "}\n" * len([each for each in package.split(".") if each])


def _head(package: str, types: Sequence[MessageType]) -> Iterator[str]:
    yield '#pragma once\n#include "shim/protobuf.hpp"'
    yield _open(package)
    yield from (f"class {each.name};" for each in types)


def _enum(each: EnumDescriptorProto, outer: str) -> Enum:
    name = f"{outer}_{each.name}" if outer else each.name
    return Enum(name, outer, each.name, [(value.name, value.number) for value in each.value])


def _collect(message: DescriptorProto, outer: str, enums: list[Enum], types: list[MessageType]) -> None:
    name = f"{outer}_{message.name}" if outer else message.name
    for nested in message.nested_type:
        _collect(nested, name, enums, types)
    enums += [_enum(each, name) for each in message.enum_type]
    types.append(MessageType(name, message))


def _enum_lines(e: Enum) -> Iterator[str]:
    numbers = [number for _, number in e.values]
    yield f"enum {e.name} : int {{ " + ", ".join(f"{e.value(name)} = {number}" for name, number in e.values) + " };"
    least, most = (next(name for name, number in e.values if number == n) for n in (min(numbers), max(numbers)))
    scope = f"{e.name}_{e.local}" if e.outer else e.local
    yield f"const {e.name} {scope}_MIN = {e.value(least)}, {scope}_MAX = {e.value(most)};"
    yield f"const int {scope}_ARRAYSIZE = {max(numbers) + 1};"
    yield f"const std::string& {e.name}_Name(int value);"
    yield f"bool {e.name}_Parse(const std::string& name, {e.name}* value);"
    yield f"bool {e.name}_IsValid(int value);"


def _enum_code(e: Enum) -> str:
    values = ", ".join(f'{{"{name}", {number}}}' for name, number in e.values)
    n = len(e.values)
    return f"""static const {PB}EnumValue {e.name}_values[] = {{{values}}};
const std::string& {e.name}_Name(int value) {{ return {PB}enum_name({e.name}_values, {n}, value); }}
bool {e.name}_Parse(const std::string& name, {e.name}* value) {{
  int number;
  if (!{PB}enum_parse({e.name}_values, {n}, name, &number)) return false;
  return *value = {e.name}(number), true;
}}
bool {e.name}_IsValid(int value) {{
  for (const {PB}EnumValue& each : {e.name}_values) if (each.number == value) return true;
  return false;
}}
"""


def accessor(field: str) -> str:
    """The name of a field's accessors: lower case, and not a keyword."""
    name = field.lower()
    return name + "_" if name in KEYWORDS else name


def _class(m: MessageType, enums: dict[str, Enum], prefix: str) -> str:
    lines = [f"class {m.name} : public {PB}Message {{", " public:"]
    lines += [
        f"  {m.name}();",
        f"  {m.name}(const {m.name}& from);",
        f"  ~{m.name}() override;",
        f"  {m.name}& operator=(const {m.name}& from) {{ CopyFrom(from); return *this; }}",
        f"  static const {m.name}& default_instance();",
        f"  {m.name}* New() const {{ return new {m.name}(); }}",
        f"  void Swap({m.name}* other) {{ {m.name} copy(*this); CopyFrom(*other); other->CopyFrom(copy); }}",
        "  int cells() const override;",
        f"  {PB}Cell* cell(int index) override;",
        "  int number(int index) const override;",
        "  const char* name(int index) const override;",
        "  std::string GetTypeName() const override;",
    ]
    for nested in m.descriptor.nested_type:
        lines.append(f"  typedef {m.name}_{nested.name} {nested.name};")
    for each in m.descriptor.enum_type:
        lines += _members(enums[f"{m.name}_{each.name}"])
    for field in m.descriptor.field:
        lines += _accessors(field, enums, prefix)
    lines.append("  // Values\n private:")
    lines += [
        f"  {_cell(field, enums, prefix)} {accessor(field.name)}_cell_{_initial(field, enums, prefix)};"
        for field in m.descriptor.field
    ]
    return "\n".join([*lines, "};"])


def _members(e: Enum) -> Iterator[str]:
    yield f"  typedef {e.name} {e.local};"
    for name, _ in e.values:
        yield f"  static constexpr {e.name} {name} = {e.value(name)};"
    scope = f"{e.name}_{e.local}"
    yield f"  static constexpr {e.name} {e.local}_MIN = {scope}_MIN, {e.local}_MAX = {scope}_MAX;"
    yield f"  static constexpr int {e.local}_ARRAYSIZE = {scope}_ARRAYSIZE;"
    yield f"  static const std::string& {e.local}_Name(int value) {{ return {e.name}_Name(value); }}"
    yield f"  static bool {e.local}_IsValid(int value) {{ return {e.name}_IsValid(value); }}"
    parse = f"{e.local}_Parse(const std::string& name, {e.name}* value)"
    yield f"  static bool {parse} {{ return {e.name}_Parse(name, value); }}"


def _type(field: Any, prefix: str) -> str:
    return field.type_name.removeprefix(prefix).lstrip(".").replace(".", "_")


def _scalar(field: Any, prefix: str) -> tuple[str, str] | None:
    if field.type == F.TYPE_ENUM:
        return _type(field, prefix), "VARINT"
    return SCALARS.get(field.type)


def _cell(field: Any, enums: dict[str, Enum], prefix: str) -> str:
    scalar = _scalar(field, prefix)
    repeated = field.label == F.LABEL_REPEATED
    if scalar:
        kind, encoding = scalar
        return f"{PB}{'Repeated' if repeated else 'Scalar'}<{kind}, {PB}{encoding}>"
    if field.type in (F.TYPE_STRING, F.TYPE_BYTES):
        return f"{PB}RepeatedItems<std::string>" if repeated else f"{PB}Text"
    return f"{PB}{'RepeatedItems' if repeated else 'Single'}<{_type(field, prefix)}>"


def _initial(field: Any, enums: dict[str, Enum], prefix: str) -> str:
    """The initializer of a field's cell: its default."""
    if field.label == F.LABEL_REPEATED or field.type in (F.TYPE_MESSAGE, F.TYPE_GROUP):
        return ""
    value = field.default_value
    if field.type == F.TYPE_ENUM:
        enum = enums[_type(field, prefix)]
        return f"{{{enum.value(value or enum.values[0][0])}}}"
    if not field.HasField("default_value"):
        return ""
    if field.type == F.TYPE_STRING:
        data = value.encode()
        return '{"' + "".join(f"\\{byte:03o}" for byte in data) + f'", {len(data)}}}'
    if field.type == F.TYPE_BYTES:
        return f'{{"{value}"}}'
    kind = SCALARS[field.type][0]
    special = {"inf": f"std::numeric_limits<{kind}>::infinity()", "nan": f"std::numeric_limits<{kind}>::quiet_NaN()"}
    if value.lstrip("-") in special:
        text = value.replace(value.lstrip("-"), special[value.lstrip("-")])
        return f"{{{text}}}"
    suffix = "LL" if kind.endswith("int64") and kind.endswith("::int64") else "ULL" if kind.endswith("uint64") else ""
    return f"{{{kind}({value}{suffix})}}"


def _accessors(field: Any, enums: dict[str, Enum], prefix: str) -> list[str]:
    name, text = accessor(field.name), field.type in (F.TYPE_STRING, F.TYPE_BYTES)
    cell = f"{name}_cell_"
    words = re.sub(r"(?:^|_)([a-z0-9])", lambda match: match[1].upper(), field.name)
    lines = [
        f"  static constexpr int k{words[:1].upper()}{words[1:]}FieldNumber = {field.number};",
        f"  void clear_{name}() {{ {cell}.clear(); }}",
    ]
    scalar = _scalar(field, prefix)
    if field.label == F.LABEL_REPEATED:
        kind = scalar[0] if scalar else "std::string" if text else _type(field, prefix)
        return [
            *lines,
            f"  int {name}_size() const {{ return {cell}.field.size(); }}",
            *_repeated(name, cell, kind, scalar, text),
        ]
    lines.append(f"  bool has_{name}() const {{ return {cell}.set(); }}")
    if scalar:
        lines.append(f"  {scalar[0]} {name}() const {{ return {cell}.get(); }}")
        lines.append(f"  void set_{name}({scalar[0]} value) {{ {cell}.put(value); }}")
    elif text:
        lines.append(f"  const std::string& {name}() const {{ return {cell}.get(); }}")
        lines.append(f"  void set_{name}(const std::string& value) {{ {cell}.put(value); }}")
        copy = "std::string(static_cast<const char*>(bytes), size)"
        lines.append(f"  void set_{name}(const void* bytes, size_t size) {{ {cell}.put({copy}); }}")
        lines.append(f"  std::string* mutable_{name}() {{ return {cell}.mutate(); }}")
    else:
        kind = _type(field, prefix)
        lines.append(f"  const {kind}& {name}() const {{ return {cell}.get(); }}")
        lines.append(f"  {kind}* mutable_{name}() {{ return {cell}.mutate(); }}")
        lines.append(f"  {kind}* release_{name}() {{ return {cell}.release(); }}")
        lines.append(f"  void set_allocated_{name}({kind}* value) {{ {cell}.adopt(value); }}")
    return lines


def _repeated(name: str, cell: str, kind: str, scalar: Any, text: bool) -> Iterator[str]:
    container = f"{PB}{'RepeatedField' if scalar else 'RepeatedPtrField'}<{kind}>"
    yield f"  const {container}& {name}() const {{ return {cell}.field; }}"
    yield f"  {container}* mutable_{name}() {{ return &{cell}.field; }}"
    if scalar:
        yield f"  {kind} {name}(int i) const {{ return {cell}.field.Get(i); }}"
        yield f"  void set_{name}(int i, {kind} value) {{ {cell}.field.Set(i, value); }}"
        yield f"  void add_{name}({kind} value) {{ {cell}.field.Add(value); }}"
        return
    yield f"  const {kind}& {name}(int i) const {{ return {cell}.field.Get(i); }}"
    yield f"  {kind}* mutable_{name}(int i) {{ return {cell}.field.Mutable(i); }}"
    yield f"  {kind}* add_{name}() {{ return {cell}.field.Add(); }}"
    if text:
        yield f"  void set_{name}(int i, const std::string& value) {{ *{cell}.field.Mutable(i) = value; }}"
        yield f"  void add_{name}(const std::string& value) {{ *{cell}.field.Add() = value; }}"


def _code(m: MessageType) -> str:
    fields = m.descriptor.field
    cells = "".join(f"    case {i}: return &{accessor(field.name)}_cell_;\n" for i, field in enumerate(fields))
    numbers = ", ".join(str(field.number) for field in fields) or "0"
    names = ", ".join(f'"{field.name}"' for field in fields) or '""'
    return f"""{m.name}::{m.name}() {{}}
{m.name}::{m.name}(const {m.name}& from) : {PB}Message() {{ CopyFrom(from); }}
{m.name}::~{m.name}() {{}}
const {m.name}& {m.name}::default_instance() {{ static const {m.name} instance; return instance; }}
int {m.name}::cells() const {{ return {len(fields)}; }}
{PB}Cell* {m.name}::cell(int index) {{
  switch (index) {{
{cells}  }}
  return nullptr;
}}
int {m.name}::number(int index) const {{ static const int numbers[] = {{{numbers}}}; return numbers[index]; }}
const char* {m.name}::name(int index) const {{ static const char* const names[] = {{{names}}}; return names[index]; }}
std::string {m.name}::GetTypeName() const {{ return "{m.name}"; }}
"""
