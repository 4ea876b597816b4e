"""What builds the operations of a device, by type of operation."""

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from .ops import Operation, OptionalOperation

T = TypeVar("T")
Builder: TypeAlias = Callable[[Any, Any], T]  # (device, operation) → what runs it


class Registry(dict[type[Operation[Any]], Builder[Any]]):
    """Each device has one. modules: those with operations that few nets have, imported when one of these is built."""

    modules: tuple[str, ...] = ()

    def implements(self, kind: type[Operation[T]]) -> Callable[[Builder[T]], Builder[T]]:
        """Registers a class or function that gets a device and an operation; mypy checks that it returns the interface
        of what is built."""

        def register(builder: Builder[T]) -> Builder[T]:
            self[kind] = builder
            return builder

        return register

    def build(self, device: Any, op: Operation[T]) -> T:
        if type(op) not in self:
            self.load(type(op))
            if type(op) not in self and isinstance(op, OptionalOperation):
                return None  # type: ignore[return-value]
        return self[type(op)](device, op)

    def load(self, wanted: type[Operation[Any]] | None = None) -> None:
        """Imports modules until there is a builder of ``wanted``; None: all."""
        for module in self.modules:
            if wanted not in self:
                importlib.import_module(module)
