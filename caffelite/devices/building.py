"""Methods of a device that build operations, from the operations' classes: their parameters stand in one spot."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def builds(kind: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method with the parameters of a class whose first one is the device."""

    def build(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return kind(self, *args, **kwargs)

    own, *others = inspect.signature(kind).parameters.values()
    build.__signature__ = inspect.Signature([own.replace(name="self"), *others])  # type: ignore[attr-defined]
    build.__doc__ = kind.__doc__
    return build
