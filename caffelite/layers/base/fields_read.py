"""Which fields of a message a layer type reads: found in the code that its passes and its data source can reach."""

import dis
import functools
import importlib
import types
from collections.abc import Iterator
from typing import Any

PACKAGE = __name__.partition(".")[0] + "."
# Methods that are called of every layer; others count where one of these leads to them
ENTRIES = frozenset(
    "__init__ setup shapes build forward backward faults compute gradient feed open_source output_part".split()
)


@functools.cache
def names_read(kind: type) -> frozenset[str]:
    """Attributes and words in the code of a layer type. Among them are all messages of a layer that it reads, and of
    those that several types have (``loss_param``) all fields; a field's name may also be made while it runs."""
    names: set[str] = set()
    seen: set[int] = set()
    waiting = [value for name, value in _members(kind) if name in ENTRIES or not callable(value)]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, str):
            names.add(one)
        elif isinstance(one, tuple | list | frozenset | set):
            waiting += one
        elif isinstance(one, type):
            if one.__module__.startswith(PACKAGE) and not issubclass(kind, one):
                waiting += [value for base in one.__mro__ for value in vars(base).values()]
        elif (function := _function(one)) and (function.__module__ or "").startswith(PACKAGE):
            for code in _codes(function.__code__):
                names.update(code.co_names)
                waiting += _reached(code, function.__globals__, kind)
    return frozenset(names)


def of_this_package(kind: type) -> bool:
    """Whether a class is written here, so that its code is known."""
    return kind.__module__.startswith(PACKAGE)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The attributes of a class as they are stored, each of the first class that has it."""
    known: set[str] = set()
    for base in kind.__mro__:
        yield from ((name, value) for name, value in vars(base).items() if name not in known)
        known.update(vars(base))


def _function(one: Any) -> types.FunctionType | None:
    if isinstance(one, property):
        one = one.fget
    if isinstance(one, functools.cached_property | functools.partial):
        one = one.func
    one = getattr(one, "__wrapped__", getattr(one, "__func__", one))
    return one if isinstance(one, types.FunctionType) else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _reached(code: types.CodeType, names: dict[str, Any], kind: type) -> Iterator[Any]:
    """What a piece of code speaks of: words, methods of the layer, functions and classes. names: of its module."""
    yield from (constant for constant in code.co_consts if isinstance(constant, str | tuple))
    inherited = None if "super" in code.co_names else 1
    for name in code.co_names:
        yield from [vars(base)[name] for base in kind.__mro__ if name in vars(base)][:inherited]
    for value in (*(names[name] for name in code.co_names if name in names), *_imported(code, names)):
        yield value
        if isinstance(value, types.ModuleType) and value.__name__.startswith(PACKAGE):
            yield from (vars(value)[name] for name in code.co_names if name in vars(value))


def _imported(code: types.CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """What a function imports when it is called."""
    steps = list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, wanted = steps[i - 2].argval, steps[i - 1].argval
        if not (level or step.argval.startswith(PACKAGE)):
            continue
        module = importlib.import_module("." * level + step.argval, names["__package__"])
        yield from (getattr(module, name, None) for name in wanted or ())
