"""Layers with tops whose shapes depend on the data."""

from __future__ import annotations

from collections.abc import Callable

from .config import Shape
from .layer import Layer


class Varying:
    """A layer that may give its tops other shapes while the net runs; it calls ``resize``. Ask ``varies(layer)``.

    ``varies``: the tops' shapes depend on the data, those of ``varied_tops``, None: all. Where it is False, the layer
    calls ``resize`` in rare cases, for which the compiler prepares nothing.
    """

    varies = True
    varied_tops: frozenset[int] | None = None
    resize: Callable[[list[Shape]], list]  # set by binding: reshapes the tops and all that follows; returns the tops


def varies(layer: Layer) -> bool:
    """Whether the shapes of the layer's tops depend on the data."""
    return isinstance(layer, Varying) and layer.varies
