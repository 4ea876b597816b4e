"""A registry of classes by name that finds those of families of layers when they are needed."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from typing import Any, TypeVar

from ... import caffelite_pb2 as pb

LAYERS, FAMILIES = "caffelite.layers", "caffelite.families"
# Modules of types that are in none of this package: first the data layer of most nets
PACKAGES = ("caffelite.data.layers.data", "caffelite.data.layers", FAMILIES)
ON_DEMAND = ("onnx",)  # modules beside layers that one user alone needs
Kind = TypeVar("Kind")
Applies = Callable[[pb.LayerParameter], bool]


class Registry(Mapping[str, Kind]):
    """Layer types by name. ``PACKAGES`` are imported one after another when a name is not among the types that are
    known, or when all are asked for: a net of BVLC's layers does not load families."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._variants: list[tuple[str, Applies, Kind]] = []
        self._unread = list(PACKAGES)
        self._lock = RLock()  # another thread waits until a package is complete

    def add(self, name: str, kind: Kind) -> None:
        """Adds a type, or replaces one; a type of a user is not replaced by one of this package."""
        known = self._kinds.get(name)
        if known is None or not _of_this_package(kind) or _of_this_package(known):
            self._kinds[name] = kind

    def add_variant(self, name: str, applies: Applies, kind: Kind, first: bool = False) -> None:
        """Adds what else a type may be. first: before all other variants."""
        self._variants.insert(0 if first else len(self._variants), (name, applies, kind))

    def remove_variant(self, kind: Kind) -> None:
        self._variants = [entry for entry in self._variants if entry[2] is not kind]

    def remove(self, name: str) -> Kind:
        """Takes a type and its variants out."""
        self._variants = [entry for entry in self._variants if entry[0] != name]
        return self._kinds.pop(name)

    def variant(self, spec: pb.LayerParameter) -> Kind:
        """What this message describes: a variant of its type, or the type itself."""
        kind = self[spec.type]
        return next((other for name, applies, other in self._variants if name == spec.type and applies(spec)), kind)

    def variants(self, name: str) -> list[Kind]:
        """The variants of a type."""
        self._load()
        return [other for known, _, other in self._variants if known == name]

    def __getitem__(self, name: str) -> Kind:
        if name not in self._kinds:
            self._load(name)
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._kinds)

    def __len__(self) -> int:
        self._load()
        return len(self._kinds)

    def _load(self, wanted: str | None = None) -> None:
        """Imports packages until there is a type ``wanted``; None: all."""
        with self._lock:
            while self._unread and wanted not in self._kinds:
                import_modules(self._unread.pop(0))


def _of_this_package(kind: Any) -> bool:
    return kind.__module__.startswith("caffelite.")


def import_modules(package: str) -> None:
    """Imports a module, or the modules of a package and of the packages in it, but for ``ON_DEMAND``."""
    for module in pkgutil.iter_modules(getattr(importlib.import_module(package), "__path__", ()), f"{package}."):
        if module.ispkg:
            import_modules(module.name)
        elif module.name.rpartition(".")[2] not in ON_DEMAND:
            importlib.import_module(module.name)


def import_beside_layers(name: str) -> None:
    """Imports the module ``name``, one of ``ON_DEMAND``, of this package and of each family that has it."""
    importlib.import_module(f"{LAYERS}.{name}")
    for family in pkgutil.iter_modules(importlib.import_module(FAMILIES).__path__, f"{FAMILIES}."):
        if importlib.util.find_spec(f"{family.name}.{name}"):
            importlib.import_module(f"{family.name}.{name}")
