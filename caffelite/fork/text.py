"""Nets and solvers of a fork in caffelite's schema, and back; which layers the fork runs, what has no counterpart."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Collector, Locator
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.layer import Layer
from ..prototxt import forks, say_once
from ..prototxt.dialects import CONVERTED, V1_FIELDS, V1_PARAM
from . import history
from .convert import Leftover, convert, repeated
from .data import ForkData, batch_size
from .schema import LAYER, NET, V1_LAYER, Schema

MODES = ("missing", "changed", "all")
RULES = ("include", "exclude", "param", "transform_param", "blobs", "placement")  # of every layer; read by caffelite
NETS = ("net_param", "train_net_param", "test_net_param")  # of a solver


class Types(Protocol):
    """The layer types of a fork."""

    def source_name(self, name: str) -> str | None:
        """The name by which the fork's sources know a type; None: they do not have it."""
        ...

    def changed(self, name: str) -> bool:
        """Whether the fork changed a type of BVLC's."""
        ...

    def modern_name(self, word: str) -> str:
        """The name of a type by its value in the enum of V1 layers."""
        ...

    def register(self, name: str) -> type[Layer]:
        """Makes the type one of the fork's own code."""
        ...


class LayerPlace(NamedTuple):
    """A layer of a net: its path, its message in the joined schema and in caffelite's."""

    path: tuple
    joined: Any
    own: Any


class ForkText:
    """Reads and writes messages with the joined schema (a ``prototxt.foreign.Foreign``). name: of the fork in messages.
    mode: which layers the fork runs: ``missing``, those of types or with fields that caffelite lacks; ``changed``, also
    those of types that the fork changed; ``all`` that it has."""

    def __init__(self, schema: Schema, types: Types, name: str, mode: str = "missing"):
        self._schema, self._types, self._name, self._mode = schema, types, name, mode

    def text_class(self, kind: type[Message]) -> type[Message]:
        return self._schema.joined[kind.DESCRIPTOR.name]

    def has_type(self, name: str) -> bool:
        return self._types.source_name(name) is not None

    def fields(self, message: str) -> frozenset[str]:
        if not self._schema.has(message):
            return frozenset()
        return frozenset(self._schema.message_class(message).DESCRIPTOR.fields_by_name)

    def from_bytes(self, data: bytes, kind: type[Message], file: str) -> Message:
        there = self._schema.name_there(kind.DESCRIPTOR.name)
        if there is None:
            return kind.FromString(data)
        message = self.text_class(kind)()
        for _ in convert(self._schema.message_class(there).FromString(data), message):
            pass  # the joined schema has all
        return self.native(message, kind, Locator(file))

    def native(self, message: Message, kind: type[Message], locate: Locator) -> Message:
        own = kind()
        left = list(convert(message, own))
        for place in _layers(message, own):
            mine = [each for each in left if each.path[: len(place.path)] == place.path]
            if self._runs(place, mine):
                made = self._give(place, mine, locate)
                # data of a fork's own type is not read, so nothing depends on how it would be transformed
                rules = () if issubclass(made, ForkData) else RULES
                kept = [each for each in mine if each.path[len(place.path)] in rules]
                left = [each for each in left if each not in mine or each in kept]
            else:
                self._defaults_of_layer(place)
        self._judge(left, locate)
        self._defaults(message, own)
        return own

    # which layers the fork runs

    def _runs(self, place: LayerPlace, left: list[Leftover]) -> bool:
        name, kind = _type(place.joined), self._modern(place.joined)
        if not name or self._types.source_name(name) is None:
            return False
        known: Any = REGISTRY.get(kind)
        if known is None:
            if kind not in CONVERTED:
                return True
        elif known.__module__ == "caffelite.fork.layer":  # of a net that was read before
            return True
        elif issubclass(known, Feeding):
            # data of another fork may have the name of a type that is not BVLC's
            return kind not in history.types() and not all(map(self._harmless, left))
        depth = len(place.path)
        if any(each.path[depth] not in RULES and not self._harmless(each) for each in left):
            return True
        if difference := self._difference(name, kind, place):
            if self._mode == "missing":
                say_once(f"{self._name} {difference}; caffelite computes its own (-fork-layers changed)")
            return self._mode != "missing"
        return self._mode == "all"

    def _difference(self, name: str, kind: str, place: LayerPlace) -> str:
        """How the fork's own type differs from caffelite's, as far as its files show; "" where they do not."""
        if self._types.changed(name):
            return f'has changed the type "{kind}"'
        own, joined = place.own.DESCRIPTOR.fields_by_name, place.joined.DESCRIPTOR.fields_by_name
        known: Any = REGISTRY.get(kind)
        field = known.field if known else ""
        if kind in history.types() or field not in own or field not in joined:
            return ""
        ours, theirs = (fields[field].message_type.fields_by_name for fields in (own, joined))
        more = sorted(set(theirs) - set(ours) - forks.harmless())
        return f'has fields of the type "{kind}" that are not caffelite\'s ({", ".join(more)})' if more else ""

    def _modern(self, layer: Any) -> str:
        """The type of a layer here."""
        name = _type(layer)
        return self._types.modern_name(name) if layer.DESCRIPTOR.name == V1_LAYER else name

    def _give(self, place: LayerPlace, left: list[Leftover], locate: Locator) -> type[Layer]:
        """Makes a layer one that the fork runs, and returns its class."""
        name = _type(place.joined)
        v1 = self._schema.enum
        message = self._schema.message_class(LAYER)()
        collector = Collector()
        for each in convert(self._as_fork(place.joined), message):
            if each.path[0].endswith("_param") and each.path[0] not in RULES:
                what = f'unknown field "{each.field.name}" in {_holder(each)} of {self._name}'
                collector.add(locate.error(what, *place.path, *each.path))
        collector.raise_any()
        kind = self._modern(place.joined)
        source = self._types.source_name(name) or name
        place.own.fork.CopyFrom(pb.ForkLayer(message=message.SerializeToString(), type=source, v1=v1))
        if place.own.DESCRIPTOR.name == LAYER:
            place.own.type = kind
        made = self._types.register(kind)
        if issubclass(made, Feeding) and not place.own.data_param.batch_size:
            place.own.data_param.batch_size = batch_size(message)
        return made

    def fork_layer(self, layer: pb.LayerParameter) -> Message:
        """A layer as the fork's schema has it, without blobs; what only caffelite knows is left out."""
        joined: Any = self.text_form(layer)
        joined.ClearField("blobs")
        message = self._schema.message_class(LAYER)()
        for _ in convert(self._as_fork(joined, strict=False), message):
            pass
        return message

    def _as_fork(self, layer: Any, strict: bool = True) -> Any:
        """A layer of the joined schema in the form, modern or V1, that the fork has."""
        if layer.DESCRIPTOR.name == V1_LAYER and not self._schema.enum:
            return self._as_modern(layer)
        if layer.DESCRIPTOR.name == LAYER and self._schema.enum:
            return self._as_v1(layer, strict)
        return layer

    def _as_modern(self, old: Any) -> Any:
        """A V1 layer of the joined schema in the modern form."""
        new: Any = self._schema.joined[LAYER]()
        for field, value in old.ListFields():
            if field.name in V1_PARAM:
                for i, each in enumerate(value):
                    while len(new.param) <= i:
                        new.param.add()
                    setattr(new.param[i], V1_PARAM[field.name], each)
            elif field.name != "type" and V1_FIELDS.get(field.name, field.name) in new.DESCRIPTOR.fields_by_name:
                _copy(value, new, V1_FIELDS.get(field.name, field.name))
        new.type = self._modern(old)
        return new

    def _as_v1(self, new: Any, strict: bool) -> Any:
        """A layer of the joined schema as one of V1. strict: a type that the enum does not have is an error."""
        old: Any = self._schema.joined[V1_LAYER]()
        for field, value in new.ListFields():
            if field.name == "param":
                for name, target in V1_PARAM.items():
                    if any(each.HasField(target) for each in value):
                        getattr(old, name).extend(getattr(each, target) for each in value)
            elif field.name != "type" and field.name in old.DESCRIPTOR.fields_by_name:
                _copy(value, old, field.name)
        words = old.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_name
        word = next((each for each in words if new.type in (each, self._types.modern_name(each))), None)
        if word is None and strict:
            raise CaffeliteError(f'layer "{new.name}": {self._name} has no type "{new.type}"')
        if word is not None:
            old.type = words[word].number
        return old

    # what has no counterpart

    def _harmless(self, left: Leftover) -> bool:
        """Whether a value that has no counterpart changes nothing."""
        names = {left.field.name, left.path[-1]}
        if names & (forks.harmless() | forks.ROUNDS):
            return True
        return not repeated(left.field) and not left.field.message_type and left.value == left.field.default_value

    def _judge(self, left: list[Leftover], locate: Locator) -> None:
        """Ignores what changes nothing. Errors: the rest."""
        collector = Collector()
        for each in left:
            holder = _holder(each)
            if not self._harmless(each):
                what = f'"{each.field.name}" in {holder} is of {self._name}, and caffelite does nothing of the kind'
                remedy = "remove it to go on with a net that does without"
                collector.add(locate.error(what, *each.path, remedy=remedy))
            elif each.field.message_type or repeated(each.field) or each.value != each.field.default_value:
                say_once(f'{locate(*each.path)}: "{each.field.name}" in {holder} is of {self._name} and ignored')
        collector.raise_any()

    # defaults

    def _defaults(self, message: Any, own: Any) -> None:
        """Sets the scalars that are unset where the fork has another default."""
        fields = message.DESCRIPTOR.fields_by_name
        for field in own.DESCRIPTOR.fields:
            other = fields.get(field.name)
            if other is None or repeated(field) or field.message_type or repeated(other) or other.message_type:
                continue
            if _is_side(field):
                continue
            if not own.HasField(field.name) and not message.HasField(field.name) and other.has_default_value:
                _set_default(own, field, other)
        for field, value in own.ListFields():
            if field.message_type and field.name in fields and field.name not in ("blobs", "fork"):
                its = getattr(message, field.name)
                pairs = zip(its, value, strict=False) if repeated(field) and repeated(fields[field.name]) else ()
                for one, two in pairs if repeated(field) else [(its, value)]:
                    self._defaults(one, two)

    def _defaults_of_layer(self, place: LayerPlace) -> None:
        """The message of a layer's type, where the net does not write it and the fork's defaults are others."""
        kind: Any = REGISTRY.get(self._modern(place.joined))
        field = kind.field if kind else ""
        if field and field in place.joined.DESCRIPTOR.fields_by_name and field in place.own.DESCRIPTOR.fields_by_name:
            if not place.own.HasField(field) and not place.joined.HasField(field):
                message = type(getattr(place.own, field))()
                self._defaults(getattr(place.joined, field), message)
                if message.ListFields():
                    getattr(place.own, field).CopyFrom(message)

    # the reverse

    def text_form(self, message: Message) -> Message:
        joined = self.text_class(type(message))()
        for _ in convert(message, joined):
            pass  # the field of layers that no text has
        for place in _layers(joined, message):
            if place.own.HasField("fork"):
                self._restore(place)
        return joined

    def _restore(self, place: LayerPlace) -> None:
        """Puts what only the fork knows of a layer into its message in the joined schema."""
        theirs = self._schema.message_class(LAYER).FromString(place.own.fork.message)
        layer = self._schema.joined[V1_LAYER if place.own.fork.v1 else LAYER]()
        for _ in convert(theirs, layer):
            pass  # the joined schema has all
        if layer.DESCRIPTOR.name != place.joined.DESCRIPTOR.name:
            layer = self._as_modern(layer)
        for field, value in layer.ListFields():
            if not place.joined.DESCRIPTOR.fields_by_name[field.name].message_type:
                continue
            if field.name not in RULES:
                place.joined.ClearField(field.name)
                _copy(value, place.joined, field.name)


def _holder(left: Leftover) -> str:
    """The name of the message that has a field."""
    holder: Any = left.field.containing_type
    return str(holder.name)


def _copy(value: Any, target: Any, name: str) -> None:
    """Sets a field of a message of the same schema."""
    field = target.DESCRIPTOR.fields_by_name[name]
    if repeated(field):
        getattr(target, name).extend(value)
    elif field.message_type:
        getattr(target, name).CopyFrom(value)
    else:
        setattr(target, name, value)


def _is_side(field: Any) -> bool:
    """Whether a field, as stride_h, is one side of a size that another field has for all sides: Caffe asks whether it
    is set, so that its default counts for nothing."""
    size, _, side = field.name.rpartition("_")
    fields = field.containing_type.fields_by_name
    return side in ("h", "w", "d") and (size in fields or f"{size}_size" in fields)


def _set_default(own: Any, field: Any, other: Any) -> None:
    value: Any = other.default_value
    if other.enum_type and field.enum_type:
        name = other.enum_type.values_by_number[value].name
        if name not in field.enum_type.values_by_name:
            return
        value = field.enum_type.values_by_name[name].number
    elif other.enum_type or field.enum_type or isinstance(value, str) != isinstance(field.default_value, str):
        return
    if value != field.default_value:
        setattr(own, field.name, type(field.default_value)(value))


def _type(layer: Any) -> str:
    """The type of a layer of the joined schema: a name, or the word of V1's enum."""
    if layer.DESCRIPTOR.name != V1_LAYER:
        return str(layer.type)
    values = layer.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    return str(values[layer.type].name) if layer.HasField("type") else ""


def _layers(joined: Any, own: Any) -> Iterator[LayerPlace]:
    """The layers of a net, of the nets in a solver, or the layer itself."""
    kind = own.DESCRIPTOR.name
    if kind in (LAYER, V1_LAYER):
        yield LayerPlace((), joined, own)
    for path, one, other in _nets(joined, own):
        for name in ("layer", "layers"):
            pairs = zip(getattr(one, name), getattr(other, name), strict=True)
            yield from (LayerPlace((*path, name, i), *pair) for i, pair in enumerate(pairs))


def _nets(joined: Any, own: Any) -> Iterator[tuple[tuple, Any, Any]]:
    if own.DESCRIPTOR.name == NET:
        yield (), joined, own
    if own.DESCRIPTOR.name == "SolverParameter":
        for name in NETS:
            one, other = getattr(joined, name), getattr(own, name)
            if name == "test_net_param":
                yield from (((name, i), *pair) for i, pair in enumerate(zip(one, other, strict=True)))
            elif own.HasField(name):
                yield (name,), one, other
