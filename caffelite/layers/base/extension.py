"""Layer types of users: ``layer`` registers a class with the message that it declares, ``elementwise`` a formula."""

import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import DescriptorProto

from ...devices.formula import Formula
from ...errors import CaffeliteError
from ...prototxt import schema
from ...prototxt.dialects import CONVERTED
from . import elementwise as formulas
from .feeding import Scheduled, feeding_type
from .image_layout import ImageLayout
from .layer import REGISTRY, Layer
from .registry import FAMILIES
from .state import Varying, Writing
from .user_code import described

log = logging.getLogger("caffelite")

Kind = TypeVar("Kind", bound=type[Layer])
TYPES = {"float": "float", "int": "int32", "bool": "bool", "str": "string"}
GUARDED = "setup shapes build feed forward backward compute gradient open length sample".split()  # run code of users
BASES = ImageLayout, Scheduled, Varying, Writing  # of what few types declare
_ours: dict[str, type[Layer]] = {}  # the types that users have added


def layer(name: str, *, field: str = "", number: int | None = None) -> Callable[[Kind], Kind]:
    """Registers a class as the layer type ``name``.

    Its fields are its attributes with a type and a default (``scale: float = 1``; float, int, bool, str, or a list of
    one of them), or those of the text ``fields``, written as in a .proto file. They are the message ``field`` of
    LayerParameter, by default named after the type (MyLayer: my_layer_param). number: of that field in caffemodels, as
    a fork of Caffe has it; by default one that follows from the name.
    """

    def add(cls: Kind) -> Kind:
        file = _file_of(cls)
        _claim(name, file or cls.__module__)
        _check_bases(cls)
        text, typed = cls.__dict__.get("fields"), _typed(cls)
        if text and typed:
            raise CaffeliteError(f"{name}: has both fields and typed attributes", remedy=f"put {typed[0]} into fields")
        lines = text or "\n".join(_line(cls, i, each) for i, each in enumerate(typed, 1))
        if feeding_type(cls).batched and not field and not re.search(r"\bbatch_size\b", lines):
            what = f"{name}: a data layer has a field batch_size"
            raise CaffeliteError(what, remedy="declare it: batch_size: int = 1")
        if lines:
            cls.field = _add_message(name, lines, field, number)
        elif field:
            cls.field = field
        for each in typed:
            setattr(cls, each, _value(each))
        for method in GUARDED:
            own = cls.__dict__.get(method)
            if inspect.isfunction(own) and not own.__module__.startswith("caffelite."):
                setattr(cls, method, _guarded(method, own, file))
        cls.type, cls.__doc__ = name, cls.__doc__ or f"{name}, of {cls.__module__}; any shape."
        _ours[name] = cls
        REGISTRY.add(name, cls)
        return cls

    return add


def elementwise(name: str, *, y: str, dx: str | None = None, number: int | None = None, **fields: float) -> type[Layer]:
    """Registers the layer type ``name`` with top y, a formula of the bottom x, and the bottom's gradient dx, a formula
    of x, y and dy; without dx there is none. fields: names in both formulas and their defaults; in a prototxt they are
    fields of the type's message. Functions: abs, exp, log, log1p, max, min, pow, sign, sqrt, tanh, where(condition, a,
    b)."""
    _claim(name, sys._getframe(1).f_code.co_filename)
    for text in filter(None, (y, dx)):
        try:
            compile(text, name, "eval")
            Formula(text, ("x", "y", "dy"), (), tuple(fields))
        except (SyntaxError, AssertionError) as error:
            raise CaffeliteError(f"{name}: a formula cannot be read: {error}", found=text) from None
    lines = [f"optional float {each} = {i} [default = {value!r}];" for i, (each, value) in enumerate(fields.items(), 1)]
    field = _add_message(name, "\n".join(lines), "", number) if fields else ""
    constants: dict[str, Any] = {each: each for each in fields}
    kind = formulas.elementwise(name, y, dx, field, **constants)
    kind.__module__ = sys._getframe(1).f_globals["__name__"]
    _ours[name] = kind
    return kind


def _check_bases(cls: type[Layer]) -> None:
    """Errors: what a base class reads that this class does not derive from."""
    for base in BASES:
        own = [name for name in vars(base) if not name.startswith("_") and name in cls.__dict__]
        if own and not issubclass(cls, base):
            remedy = f"class {cls.__name__}({base.__name__}, {cls.__bases__[0].__name__})"
            raise CaffeliteError(f"{cls.__name__}.{own[0]} is read of a {base.__name__} only", remedy=remedy)


def register(cls: Kind) -> Kind:
    """Registers a class under its ``type``, or its name, with a message that the schema has already."""
    _check_bases(cls)
    name = cls.type or cls.__name__
    _claim(name, _file_of(cls) or cls.__module__)
    _ours[name] = cls
    REGISTRY.add(name, cls)
    return cls


def _file_of(cls: type) -> str | None:
    module = sys.modules.get(cls.__module__)
    return inspect.getsourcefile(module) if module else None


def check_vacant(name: str) -> None:
    """Errors: a type of BVLC's Caffe. A type of a user may be defined again, and one of a fork by a user."""
    if name not in _ours and name in REGISTRY and not _of_fork(name):
        raise CaffeliteError(f'the layer type "{name}" exists already', remedy="give yours another name")


def _of_fork(name: str) -> bool:
    return not REGISTRY[name].upstream or REGISTRY[name].__module__.startswith(f"{FAMILIES}.")


def _claim(name: str, file: str) -> None:
    """Takes a type of a fork out of the registry where a user's file has one of that name. Errors: one of BVLC's."""
    check_vacant(name)
    if name not in _ours and name in REGISTRY:
        log.warning('the layer type "%s" of %s replaces that of %s', name, Path(file).name, REGISTRY[name].__module__)
        schema.users[name] = REGISTRY.remove(name).field
    schema.users.setdefault(name, CONVERTED.get(name, ""))


def words(name: str) -> str:
    """The words of a type's name as a name in Python: MyLayer gives my_layer."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _add_message(name: str, text: str, field: str, number: int | None) -> str:
    default = f"{words(name)}_param"
    field = field or default
    readers = [known for known, kind in REGISTRY.items() if known != name and kind.field == field]
    replaces = bool(schema.users[name]) and field in (default, schema.users[name]) and all(map(_of_fork, readers))
    if schema.has_field(field) and not replaces:
        what = f"{name}: LayerParameter has a field {field} already"
        raise CaffeliteError(what, remedy=f'use its fields: @layer("{name}", field="{field}") and no fields of its own')
    replaces &= schema.has_field(field)
    message: DescriptorProto = schema.read_fields(text, f"{'User' if replaces else ''}{name}Parameter")
    if replaces and readers:
        schema.add_fields_of(field, message)
    schema.add_layer_field(field, message, number)
    return field


def _typed(cls: type) -> list[str]:
    """The attributes with a type that fields have. Errors: another type, a name that layers have."""
    fields = []
    for name, kind in inspect.get_annotations(cls).items():
        if name.startswith("_"):
            continue
        if _proto_type(kind)[1] is None:
            expected = f"{', '.join(TYPES)}, or a list of one of them, as in list[float]"
            remedy = "begin the name of an attribute that is no field with _"
            raise CaffeliteError(f"{cls.__name__}.{name} is no field", expected=expected, found=kind, remedy=remedy)
        if (
            any(hasattr(base, name) for base in cls.__mro__[1:] if base.__module__.startswith("caffelite."))
            or name in Layer.__annotations__
            or name in ("name", "p", "spec", "phase", "locate")
        ):
            remedy = f'write it as text, fields = "optional float {name} = 1;", and read self.p.{name}'
            raise CaffeliteError(f"{cls.__name__}.{name} is an attribute of every layer", remedy=remedy)
        fields.append(name)
    return fields


def _proto_type(annotation: Any) -> tuple[str, str | None]:
    """Label and type of a field with this annotation; None for a type that no field has."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    text = str(annotation) if str(annotation).startswith("list[") else text
    match = re.fullmatch(r"list\[(\w+)\]", text)
    return ("repeated", TYPES.get(match[1])) if match else ("optional", TYPES.get(text))


def _line(cls: type, number: int, name: str) -> str:
    label, kind = _proto_type(inspect.get_annotations(cls)[name])
    value = cls.__dict__.get(name)
    if label == "repeated" and value:
        raise CaffeliteError(f"{cls.__name__}.{name}: a list has no default", expected="[]", found=value)
    if label == "repeated" or value is None:
        return f"{label} {kind} {name} = {number};"
    text = f'"{value}"' if kind == "string" else str(value).lower() if kind == "bool" else repr(value)
    return f"{label} {kind} {name} = {number} [default = {text}];"


def _value(name: str) -> property:
    def read(self: Layer) -> Any:
        value = getattr(self.p, name)
        return value if isinstance(value, float | int | str) else list(value)

    return property(read)


def _guarded(name: str, method: Callable, file: str | None) -> Callable:
    """The method of a layer, whose mistakes name the layer and the line."""

    @functools.wraps(method)
    def call(self: Layer, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except (CaffeliteError, MemoryError):
            raise
        except Exception as mistake:  # a user's class may raise anything
            raise self.error(f"{name} {described(mistake, file)}") from mistake

    return call
