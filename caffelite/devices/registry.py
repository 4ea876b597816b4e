"""What builds the operations of a device, by type of operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from .ops import Operation, OptionalOperation

T = TypeVar("T")
Builder: TypeAlias = Callable[[Any, Any], T]  # (device, operation) → what runs it


class Registry(dict[type[Operation[Any]], Builder[Any]]):
    """Each device has one."""

    def implements(self, kind: type[Operation[T]]) -> Callable[[Builder[T]], Builder[T]]:
        """Registers a class or function that gets a device and an operation; mypy checks that it returns the interface
        of what is built."""

        def register(builder: Builder[T]) -> Builder[T]:
            self[kind] = builder
            return builder

        return register

    def build(self, device: Any, op: Operation[T]) -> T:
        if type(op) not in self and isinstance(op, OptionalOperation):
            return None  # type: ignore[return-value]
        return self[type(op)](device, op)
