"""The fields of a message, their valid values, and the remedies for invalid values."""

import re
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from ... import caffelite_pb2 as pb
from ...errors import did_you_mean
from .. import forks
from ..dialects import modern_type

INTEGER = re.compile(r"0|[1-9][0-9]{0,39}|0[0-7]{1,39}|0[xX][0-9A-Fa-f]{1,39}")
DECIMAL = re.compile(r"(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?")
NOT_FINITE = {"inf": float("inf"), "infinity": float("inf"), "nan": float("nan")}
WANTED = {"integer": "an integer", "float": "a number", "bool": "true or false"} | dict.fromkeys(
    ("string", "bytes"), "a string in quotes"
)
BOOLS = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}


class Field(NamedTuple):
    name: str
    kind: str  # block, integer, float, bool, enum, string, bytes
    repeated: bool
    low: float = 0
    high: float = 0
    enum: EnumDescriptor | None = None


class Fields(NamedTuple):
    message: str
    by_name: dict[str, Field]
    required: list[str]
    of_forks: dict[str, tuple[str, ...]] = {}  # of Caffe's forks: name → forks


HIDDEN = "ForkLayer"  # the message of fields that no text has
F = FieldDescriptor
INTEGERS = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, 2**64 - 1)),
}
KINDS = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys((F.TYPE_MESSAGE, F.TYPE_GROUP), "block"),
    **{F.TYPE_FLOAT: "float", F.TYPE_DOUBLE: "float", F.TYPE_BOOL: "bool", F.TYPE_ENUM: "enum"},
    **{F.TYPE_STRING: "string", F.TYPE_BYTES: "bytes"},
}


@cache
def fields_of(descriptor: Descriptor) -> Fields:
    proto = DescriptorProto()  # has the labels: the descriptor spells them differently in protobuf 5 and 7
    descriptor.CopyToProto(proto)
    labels = {field.name: field.label for field in proto.field}
    known = {}
    for field in descriptor.fields:
        if field.message_type and field.message_type.name == HIDDEN:
            continue
        low, high = INTEGERS.get(field.type, (0, 2**128 - 2**103 if field.type == F.TYPE_FLOAT else float("inf")))
        repeated = labels[field.name] == FieldDescriptorProto.LABEL_REPEATED
        known[field.name] = Field(field.name, KINDS[field.type], repeated, low, high, field.enum_type)
    required = [n for n, label in labels.items() if label == FieldDescriptorProto.LABEL_REQUIRED]
    return Fields(
        descriptor.name, known, required, {n: f for n, f in forks.fields(descriptor.name).items() if n not in known}
    )


@cache
def meant(name: str, descriptor: Descriptor | EnumDescriptor, layer_type: str = "") -> str | None:
    """The remedy for a name that the message or the enum does not have. layer_type: of the layer that the message is,
    where it is known."""
    if isinstance(descriptor, EnumDescriptor):
        old = forks.old_type(name) if descriptor.name == "LayerType" else None
        return old or did_you_mean(name, descriptor.values_by_name)
    holders = [
        field.name for field in descriptor.fields if field.message_type and name in field.message_type.fields_by_name
    ]
    own = [holder for holder in holders if holder.removesuffix("_param").replace("_", "") == layer_type.lower()]
    holders = own or holders
    if holders:
        return f"it belongs in {' or '.join(holders[:3])}" + " or others" * (len(holders) > 3)
    if descriptor.name == "NetParameter" and name in pb.SolverParameter.DESCRIPTOR.fields_by_name:
        return "it belongs in a solver"
    if elsewhere := forks.holders(name):
        return f"it belongs in {' or '.join(elsewhere[:3])}"
    return did_you_mean(name, descriptor.fields_by_name) or did_you_mean(name, forks.fields(descriptor.name))


class ForkValue(Exception):
    """An enum word that only forks have; it is ignored, with a warning."""


class Wrong(Exception):
    """A value that its field cannot take: what was expected, and the remedy."""

    def __init__(self, expected: str, remedy: str | None = None):
        self.expected, self.remedy = expected, remedy


def _integer(field: Field, kind: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not INTEGER.fullmatch(digits):
        if kind == "number" and digits.isdecimal() and digits[0] != "0":
            raise Wrong(range_of(field))
        raise Wrong("an integer", "an integer that begins with 0 is octal" if digits.isdecimal() else None)
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    value = int(text, base)
    if not field.low <= value <= field.high:
        raise Wrong(range_of(field))
    return value


def _float(field: Field, kind: str, text: str) -> float:
    digits = text.removeprefix("-")
    if kind == "name":
        value = NOT_FINITE.get(digits.lower())
        if value is None:
            raise Wrong("a number", quotes(field, text))
    elif not DECIMAL.fullmatch(digits):
        raise Wrong("a decimal number")
    else:
        value = float(digits.rstrip("fF"))
        if value >= field.high:  # rounds to infinity
            raise Wrong(f"a number within ±{'3.4e38' if field.high < 1e39 else '1.8e308'}")
    return -value if text[0] == "-" else value


def _bool(field: Field, kind: str, text: str) -> bool:
    if text in BOOLS:
        return BOOLS[text]
    raise Wrong("true or false", did_you_mean(text, ("true", "false")) if kind == "name" else None)


def enumeration(field: Field) -> EnumDescriptor:
    """The enum of a field of kind "enum"."""
    assert field.enum is not None, field.name
    return field.enum


def _enum(field: Field, kind: str, text: str) -> int:
    enum = enumeration(field)
    if kind == "name" and text in enum.values_by_name:
        return enum.values_by_name[text].number
    if enum.name == "Engine" and text in forks.ENGINES:
        raise ForkValue(text)
    if kind == "number" and INTEGER.fullmatch(text.removeprefix("-")):
        number = _integer(field._replace(low=-(2**31), high=2**31 - 1), kind, text)
        if number in enum.values_by_number:
            return number
    raise Wrong(wanted(field), meant(text, enum) if kind == "name" else None)


def _string(field: Field, kind: str, text: str) -> str:
    raise Wrong("a string in quotes", quotes(field, text))


VALUES = {"integer": _integer, "float": _float, "bool": _bool, "enum": _enum, "string": _string, "bytes": _string}


def wanted(field: Field) -> str:
    if field.kind == "enum":
        enum = enumeration(field)
        names = list(enum.values_by_name)
        return f"one of {', '.join(names)}" if len(names) <= 8 else f"a {enum.name}"
    return WANTED[field.kind]


def range_of(field: Field) -> str:
    return f"an integer from {field.low} to {field.high}"


def quotes(field: Field, text: str) -> str | None:
    if field.name == "type" and text in pb.V1LayerParameter.LayerType.keys():  # noqa: SIM118  # it is an enum
        text = modern_type(text)
    return f'write "{text}"' if field.kind == "string" and len(text) < 60 else None


def without_quotes(field: Field, text: str) -> str | None:
    """The remedy for a string in place of a value of another kind."""
    enum = field.enum
    if enum and text in enum.values_by_name or not enum and reads(field, text):
        return "write it without quotes"
    if enum is None or enum.full_name != pb.V1LayerParameter.LayerType.DESCRIPTOR.full_name:
        return None
    old = next((name for name in enum.values_by_name if modern_type(name) == text), None)
    return f"write type: {old}, or {MODERN}" if old else f"write {MODERN}{OLD_INPUT if text == 'Input' else ''}"


MODERN = 'layer { type: "Name" } in place of layers { type: NAME }, for all layers'
OLD_INPUT = '; or for this one input: "data" and four lines input_dim: outside of layers'


def reads(field: Field, text: str) -> bool:
    """Whether a quoted word would be a value of the field without its quotes."""
    match = re.fullmatch(r"-?(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9.][\w.+-]*))", text, re.ASCII)
    if match is None:
        return False
    try:
        return VALUES[field.kind](field, match.lastgroup or "", text) is not None
    except Wrong:
        return False


def shown(text: str, quote: str = '"') -> str:
    """A token for an error message: shortened, and printable on every terminal."""
    short = text if len(text) <= 60 else text[:57] + "..."
    return quote + "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in short) + quote
