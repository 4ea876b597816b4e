"""Caffemodels and solverstates in the schema of a fork."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from .. import caffelite_pb2 as pb, weights
from ..errors import CaffeliteError
from ..weights import layout
from ..weights.caffemodel import VARINT, field_bytes, tag_bytes, varint_bytes
from .schema import LAYER, NET, V1_LAYER, Schema
from .text import ForkText

STATE, BLOB = "SolverState", "BlobProto"
OWN = 8000  # fields from this number on are caffelite's
DIMENSIONS = ("num", "channels", "height", "width")
# What readers of weights look at, by message of caffelite's schema
READ = {
    NET: ("layer", "layers"),
    LAYER: ("name", "blobs"),
    V1_LAYER: ("name", "blobs", "layer"),
    "V0LayerParameter": ("name", "blobs"),
    BLOB: ("shape", "data", "diff", "double_data", "double_diff", *DIMENSIONS),
    "BlobShape": ("dim",),
    STATE: ("iter", "learned_net", "history", "current_step", "minimum_loss", "iter_last_event"),
}


class ForkFiles(layout.Layout):
    """Files of weights as a fork has them: numbers by the names of fields; with `layers` and blobs of four axes where
    the fork knows no others."""

    def __init__(self, schema: Schema, text: ForkText, name: str):
        self._schema, self._text, self._name = schema, text, name
        blob = self._descriptor(BLOB).fields_by_name
        self.data, self.diff = blob["data"].number, blob["diff"].number
        history = self._descriptor(STATE).fields_by_name.get("history")
        self.history = history.number if history else 0
        self._has_shapes = "shape" in blob

    def _descriptor(self, name: str) -> Any:
        """The fork's message by caffelite's name. Errors: KeyError."""
        return self._schema.message_class(self._schema.name_there(name) or name).DESCRIPTOR

    # reading

    def read(self, data: bytes, message: str) -> bytes:
        if self._as_caffe():
            return data
        own = getattr(pb, message).DESCRIPTOR
        return b"".join(self._translated(memoryview(data), self._descriptor(message), own))

    def _as_caffe(self) -> bool:
        """Whether the fork has Caffe's numbers, as far as readers look."""
        for name, fields in READ.items():
            there = self._schema.name_there(name)
            if there is None:
                continue
            own, its = getattr(pb, name).DESCRIPTOR, self._schema.message_class(there).DESCRIPTOR
            numbers = {own.fields_by_name[field].number: field for field in fields}
            if any(numbers.get(field.number, field.name) != field.name for field in its.fields):
                return False
            if any(its.fields_by_name[f].number != n for n, f in numbers.items() if f in its.fields_by_name):
                return False
        return True

    def _translated(self, data: memoryview, source: Any, target: Any) -> Iterator[bytes | memoryview]:
        """A message with the numbers of another schema; what that lacks is left out, but for caffelite's own."""
        for number, wire, value, whole in weights.fields(data):
            field = source.fields_by_number.get(number)
            to = target.fields_by_name.get(field.name) if field else None
            if field is None or to is None:
                if number >= OWN:
                    yield whole
                continue
            if field.message_type and to.message_type and wire == weights.LENGTH:
                body = b"".join(self._translated(value, field.message_type, to.message_type))
                yield field_bytes(to.number, body)
            elif wire == VARINT:
                yield tag_bytes(to.number, wire) + varint_bytes(_word(field, to, value))
            else:
                prefix = varint_bytes(len(value)) if wire == weights.LENGTH else b""
                yield tag_bytes(to.number, wire) + prefix
                yield value

    # writing

    def net_head(self, net: pb.NetParameter) -> bytes:
        return self._schema.message_class(NET)(name=net.name).SerializeToString()

    def layer(self, spec: pb.LayerParameter) -> tuple[int, bytes, int]:
        message = self._text.fork_layer(spec)
        name = "layers" if self._schema.enum else "layer"
        number = self._schema.message_class(NET).DESCRIPTOR.fields_by_name[name].number
        data = message.SerializePartialToString()  # what the fork requires and caffelite does not may be missing
        return number, data, message.DESCRIPTOR.fields_by_name["blobs"].number

    def shape(self, shape: tuple[int, ...]) -> bytes:
        blob = self._descriptor(BLOB).fields_by_name
        if self._has_shapes:
            body = b"".join(map(varint_bytes, shape))
            dim = self._descriptor("BlobShape").fields_by_name["dim"].number
            return field_bytes(blob["shape"].number, field_bytes(dim, body))
        if len(shape) > len(DIMENSIONS):
            what = f"{self._name} has blobs of four axes, and cannot read one of shape {'x'.join(map(str, shape))}"
            raise CaffeliteError(what, remedy="snapshot_format: HDF5 keeps the shape")
        axes = (1,) * (len(DIMENSIONS) - len(shape)) + tuple(shape)
        pairs = zip(DIMENSIONS, axes, strict=True)
        return b"".join(tag_bytes(blob[name].number, VARINT) + varint_bytes(size) for name, size in pairs)

    def state_head(self, state: pb.SolverState) -> bytes:
        if not self.history:
            what = f"{self._name} has no history in its SolverState"
            raise CaffeliteError(what, remedy="snapshot_format: HDF5 keeps the state of the solver")
        data = state.SerializeToString()
        if self._as_caffe():
            return data
        return b"".join(self._translated(memoryview(data), state.DESCRIPTOR, self._descriptor(STATE)))


def _word(field: FieldDescriptor, to: FieldDescriptor, value: int) -> int:
    """A value of an enum by its name; another number as it is."""
    if not field.enum_type or not to.enum_type or value not in field.enum_type.values_by_number:
        return value
    name = field.enum_type.values_by_number[value].name
    return to.enum_type.values_by_name[name].number if name in to.enum_type.values_by_name else value
