"""What families of layers from forks say of the reading of files: the module ``dialects`` of a family's folder.

It is imported when the first message is read. What is read of it, each of which it may lack:

FIELDS        fork: message: the fields that the fork added to it, as in ``forks``
HARMLESS      reason: those of them that leave every number as it is
REMEDIES      field: what else does the same
CONVOLUTIONS  types with a convolution_param that may have pads by side and hold the ReLU after them
CHANGES       type: (layer of this type, types of the net's layers) -> what becomes of it, the layer changed in place
PYTHON        (module, class) of a Python layer: the native type
detections    (net, its inputs of image sizes) -> the layer that makes detections of its tops, or None
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from .. import caffelite_pb2 as pb

FAMILIES, DIALECTS = "caffelite.families", "dialects"
Path = tuple[str | int, ...]


class Changes(NamedTuple):
    """What became of a layer: old path → new path, mistakes (what, path, details), notes (text, path); paths are those
    within the layer. dialects: the names of the old forms."""

    dialects: list[str]
    moves: dict[Path, Path]
    mistakes: list[tuple[str, Path, dict[str, Any]]]
    notes: list[tuple[str, Path]]


def unchanged() -> Changes:
    """Of a layer, before anything became of it."""
    return Changes([], {}, [], [])


Change = Callable[[pb.LayerParameter, frozenset[str]], Changes]


@dataclass(frozen=True)
class NativeLayer:
    """A native type, its message in LayerParameter, and the fields that the keys of param_str set. tops: a pattern of
    the names that its tops have; others are of a program that feeds more."""

    type: str
    message: str
    fields: dict[str, str]
    tops: str = ".*"


@cache
def modules() -> tuple[ModuleType, ...]:
    """The dialects of all families."""
    names = [family.name for family in pkgutil.iter_modules(importlib.import_module(FAMILIES).__path__)]
    return tuple(filter(None, map(_module, names)))


def _module(family: str) -> ModuleType | None:
    name = f"{FAMILIES}.{family}.{DIALECTS}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def entries(constant: str) -> Iterator[tuple[Any, Any]]:
    """Of a table that dialects may have, family by family."""
    for module in modules():
        yield from getattr(module, constant, {}).items()


def convolutions() -> tuple[str, ...]:
    """Of all families."""
    return tuple(name for module in modules() for name in getattr(module, "CONVOLUTIONS", ()))


@cache
def changes() -> dict[str, tuple[Change, ...]]:
    """type → what changes layers of it."""
    by_type: dict[str, tuple[Change, ...]] = {}
    for kind, change in entries("CHANGES"):
        by_type[kind] = *by_type.get(kind, ()), change
    return by_type


def python_layers() -> dict[tuple[str, str], NativeLayer]:
    """(module, class) → the native type."""
    return dict(entries("PYTHON"))


def detections(net: pb.NetParameter, sizes: list[str]) -> pb.LayerParameter | None:
    """The layer that makes detections of the tops of a net, if a family knows them. sizes: the inputs of the net that
    have the height, width and scale of images."""
    made = (module.detections(net, sizes) for module in modules() if hasattr(module, "detections"))
    return next(filter(None, made), None)
