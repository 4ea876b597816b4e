"""Nets written in Python: ``layers`` (L) makes layers, ``params`` (P) has the constants of their fields, ``NetSpec``
names the blobs.

```python
n = caffe.NetSpec()
n.data = L.Input(shape=dict(dim=[1, 3, 227, 227]))
n.conv1 = L.Convolution(n.data, kernel_size=11, num_output=96, stride=4)
n.pool1 = L.Pooling(n.conv1, kernel_size=3, stride=2, pool=P.Pooling.MAX)
text = str(n.to_proto())
```
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, did_you_mean
from ..layers import REGISTRY
from ..prototxt import schema

SUFFIX = "Parameter"  # of the names of messages


class Top:
    """An output of a layer: ``fn``, the layer, and ``n``, which of its outputs."""

    def __init__(self, fn: Function, n: int):
        self.fn, self.n = fn, n

    def to_proto(self) -> pb.NetParameter:
        """The net that computes this top; blobs get names by their types."""
        return to_proto(self)


class Function:
    """A layer: its type, ``inputs`` (tops of other layers) and ``params`` (fields of its message, by name).

    ntop: the number of its outputs, 1 by default; in_place: its outputs have the names of its inputs. A parameter is a
    field of the layer's own message, or of LayerParameter. Errors: TypeError for an input that is no Top.
    """

    def __init__(self, type_name: str, inputs: tuple[Top, ...], params: Mapping[str, Any]):
        for index, top in enumerate(inputs):
            if not isinstance(top, Top):
                raise TypeError(f"{type_name} input {index} is not a Top (type is {type(top)})")
        self.type_name, self.inputs = type_name, inputs
        self.params = {name: value for name, value in params.items() if name not in ("ntop", "in_place")}
        self.ntop, self.in_place = params.get("ntop", 1), params.get("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))


class _Writer:
    """Writes layers into messages, each after those that it reads. names: of tops and layers that the user named."""

    def __init__(self, names: Mapping[object, str]):
        self._names, self._counts = dict(names), Counter[str]()
        self.layers: OrderedDict[Function, pb.LayerParameter] = OrderedDict()

    def add(self, fn: Function) -> None:
        """Adds a layer and all below it."""
        pending = [fn]
        while pending:  # not recursive: nets may be deeper than Python's stack
            fn = pending[-1]
            missing = [top.fn for top in fn.inputs if top.fn not in self.layers]
            if fn in self.layers:
                pending.pop()
            elif missing:
                pending.extend(reversed(missing))
            else:
                self.layers[pending.pop()] = self._message(fn)

    def _name(self, key: Top | Function, type_name: str) -> str:
        """The name of a top or layer: the user's, else the type with a number."""
        if key not in self._names:
            self._counts[type_name] += 1
            self._names[key] = f"{type_name}{self._counts[type_name]}"
        return self._names[key]

    def _message(self, fn: Function) -> pb.LayerParameter:
        message = pb.LayerParameter(type=fn.type_name)
        message.bottom.extend(self.layers[top.fn].top[top.n] for top in fn.inputs)
        if fn.in_place:
            message.top.extend(message.bottom)
        else:
            message.top.extend(self._name(top, fn.type_name) for top in fn.tops)
        key = fn if fn in self._names or not fn.tops else fn.tops[0]
        message.name = self._name(key, fn.type_name)
        field = getattr(REGISTRY.get(fn.type_name), "field", "")
        own = field if fn.type_name in schema.users else _own_messages().get(fn.type_name) or field
        for name, value in fn.params.items():
            fields = getattr(message, own).DESCRIPTOR.fields_by_name if own else {}
            inside = not name.endswith("param") and name in fields
            _assign(getattr(message, own) if inside and own else message, name, value, fn.type_name, fields)
        return message

    def net(self) -> pb.NetParameter:
        return pb.NetParameter(layer=self.layers.values())


@cache
def _own_messages() -> dict[str, str]:
    """The field of LayerParameter with the message of a type of layer, by the message's name without Parameter; the
    first of several."""
    fields: dict[str, str] = {}
    for field in pb.LayerParameter.DESCRIPTOR.fields:
        if field.message_type is not None and field.name.endswith("_param"):
            fields.setdefault(field.message_type.name.removesuffix(SUFFIX), field.name)
    return fields


def _assign(message: Message, name: str, value: Any, kind: str, others: Mapping[str, object] = {}) -> None:
    """Sets a field: a list sets a repeated field, or one message each; a dict a message; others a value. kind: of the
    layer, for errors. Errors: no such field; a value of another type."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        known = [*others, *message.DESCRIPTOR.fields_by_name]
        raise CaffeliteError(f'{kind} has no field "{name}"', remedy=did_you_mean(name, known))
    try:
        target = getattr(message, name)
        if hasattr(target, "extend"):
            values = value if isinstance(value, list | tuple) else [value]
            if field.message_type is None:
                target.extend(values)
            for item in values if field.message_type is not None else ():
                _assign_all(target.add(), item, kind)
        elif isinstance(value, Mapping):
            target.SetInParent()
            _assign_all(target, value, kind)
        elif isinstance(value, Message):
            target.CopyFrom(value)
        else:
            setattr(message, name, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise CaffeliteError(f'{kind}: field "{name}" cannot be {value!r} ({error})') from None


def _assign_all(message: Message, values: Mapping[str, Any] | Message, kind: str) -> None:
    if isinstance(values, Message):
        message.CopyFrom(values)
        return
    for name, value in values.items():
        _assign(message, name, value, kind)


def to_proto(*tops: Top) -> pb.NetParameter:
    """The net that computes tops; blobs get names by their types."""
    writer = _Writer({})
    for top in tops:
        writer.add(top.fn)
    return writer.net()


class NetSpec:
    """Tops by name: ``n.conv1 = L.Convolution(n.data, ...)`` names the blob and the layer conv1. ``n["a/b"]`` is for
    names that Python does not allow."""

    tops: OrderedDict[str, Top | Function]

    def __init__(self) -> None:
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name: str, value: Top | Function) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Any:
        try:
            return self.tops[name]
        except KeyError:
            raise AttributeError(f"the net has no top {name!r}") from None

    __setitem__ = __setattr__

    def __getitem__(self, name: str) -> Any:
        return self.tops[name]

    def __delattr__(self, name: str) -> None:
        del self.tops[name]

    __delitem__ = __delattr__

    def keys(self) -> list[str]:
        """The names in order."""
        return list(self.tops)

    def vals(self) -> list[Top | Function]:
        """The tops in order, as in SSD's Caffe."""
        return list(self.tops.values())

    def update(self, name: str, params: Mapping[str, Any]) -> None:
        """Sets more parameters of the layer of a top, as in SSD's Caffe."""
        top = self.tops[name]
        (top.fn if isinstance(top, Top) else top).params.update(params)

    def to_proto(self) -> pb.NetParameter:
        """The net with all layers that the named tops need."""
        writer = _Writer({top: name for name, top in self.tops.items()})
        for top in self.tops.values():
            writer.add(top.fn if isinstance(top, Top) else top)
        return writer.net()


class _Layers:
    """``layers.Convolution(bottom, ..., kernel_size=3)``: a layer's top, a tuple of tops, or with ntop=0 the layer."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def layer(*inputs: Top, **params: Any) -> Any:
            fn = Function(name, inputs, params)
            return fn if fn.ntop == 0 else fn.tops[0] if fn.ntop == 1 else fn.tops

        return layer


class _Params:
    """``params.Pooling.MAX``: the values of enums by message, without Parameter, and name."""

    def __getattr__(self, name: str) -> Any:
        message = name + SUFFIX
        if not hasattr(pb, message):
            raise AttributeError(f"there is no message {message}")
        return getattr(pb, message)


layers, params = _Layers(), _Params()


def layer_type_list() -> list[str]:
    """The names of all layer types, in alphabetical order."""
    return sorted(REGISTRY)


def layer_type_count() -> int:
    """How many layer types there are."""
    return len(REGISTRY)
