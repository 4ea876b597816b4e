"""Reads the JSON files that caffelite stores: reports, jobs, records of runs, notes, indexes.

Anybody may have written such a file. So each reader names the fields that it uses, with their kinds. A kind is a type,
a union of types (float takes whole numbers, int no truth values), ``[kind]`` for a list, ``{str: kind}`` for an object
with any names, ``{"name": kind, ...}`` for an object with these names at least, a tuple for any one of its kinds.
"""

import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from . import inputs
from .errors import CaffeliteError

LARGEST = 1 << 63  # of a whole number
Fields = Mapping[Any, Any]
ANY: Fields = {str: Any}


def read(path: str | os.PathLike, fields: Fields) -> dict[str, Any]:
    """The fields of a JSON object that are there and of their kinds; none where the file is missing, damaged or not an
    object."""
    try:
        content = _object(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return chosen(content, fields)


def chosen(content: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The fields of an object that are there and of their kinds."""
    if str in fields:
        return {name: value for name, value in content.items() if fits(value, fields[str])}
    return {name: content[name] for name, kind in fields.items() if name in content and fits(content[name], kind)}


def load(
    path: str | os.PathLike, fields: Fields, optional: Fields | None = None, most: int = inputs.TEXT
) -> dict[str, Any]:
    """The fields of a JSON object of at most `most` bytes. optional: those that may be missing. Errors:
    CaffeliteError where the file cannot be read, a field is missing, or a value is of another kind."""
    name = Path(path).name
    try:
        content = _object(path, most)
    except (OSError, ValueError, RecursionError):
        raise CaffeliteError(f"{name} cannot be read", expected="a JSON file that caffelite wrote") from None
    if str in fields:
        if not fits(content, dict(fields)):
            raise CaffeliteError(f"{name} has a value of another kind", expected=_shown(dict(fields)))
        return content
    optional = optional or {}
    for field, kind in {**optional, **fields}.items():
        if field not in content and field in fields:
            raise CaffeliteError(f'{name} has no "{field}"', expected="a JSON file that caffelite wrote")
        if field in content and not fits(content[field], kind):
            raise CaffeliteError(f'"{field}" in {name} is of another kind', expected=_shown(kind))
    return {field: content[field] for field in (*fields, *optional) if field in content}


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind."""
    if isinstance(kind, list):
        return isinstance(value, list) and _all_fit(value, kind[0])
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return False
        if str in kind:
            return _all_fit(value.values(), kind[str])
        return all(name in value and fits(value[name], each) for name, each in kind.items())
    if isinstance(kind, types.UnionType | tuple):
        return any(fits(value, each) for each in (kind if isinstance(kind, tuple) else typing.get_args(kind)))
    if kind is Any:
        return True
    if kind is None or kind is types.NoneType:
        return value is None
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int) and abs(value) > LARGEST:
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _all_fit(values: Collection[Any], kind: Any) -> bool:
    return {str}.issuperset(map(type, values)) if kind is str else all(fits(each, kind) for each in values)


def kinds(dataclass: Any) -> dict[str, Any]:
    """The kinds of a dataclass's fields, as JSON has them."""
    return {name: _kind(hint) for name, hint in typing.get_type_hints(dataclass).items()}


def _kind(hint: Any) -> Any:
    if typing.get_origin(hint) in (tuple, list):
        return [_kind(typing.get_args(hint)[0])]
    if typing.get_origin(hint) is dict:
        return {str: _kind(typing.get_args(hint)[1])}
    return kinds(hint) if dataclasses.is_dataclass(hint) else str if hint is Path else hint


def finite(value: Any) -> Any:
    """Plain values for JSON, in which a number that is not finite becomes null, and a path text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _object(path: str | os.PathLike, most: int = inputs.TEXT) -> dict[str, Any]:
    content = json.loads(inputs.read_text(path, most))
    if not isinstance(content, dict):
        raise ValueError
    return content


def _shown(kind: Any) -> str:
    if isinstance(kind, list):
        return f"a list of {_shown(kind[0])}"
    if isinstance(kind, dict) and str in kind:
        return "an object" if kind[str] is Any else f"an object of {_shown(kind[str])}"
    if isinstance(kind, dict):
        return f"an object with {', '.join(kind)}"
    if isinstance(kind, tuple):
        return " or ".join(map(_shown, kind))
    return getattr(kind, "__name__", str(kind))
