"""What many layers require of their bottoms and fields: each function raises the error, with all that it says."""

from __future__ import annotations

import math
from typing import Any

from .config import Shape
from .message import LayerMessage


def images(layer: LayerMessage, bottoms: list[Shape], index: int = 0) -> None:
    """A bottom of images, N×C×H×W."""
    if len(bottoms[index]) != 4:
        found = f"shape {list(bottoms[index])}"
        raise layer.bottom_error(index, "is no batch of images", expected="4 axes N×C×H×W", found=found)


def channels(layer: LayerMessage, bottoms: list[Shape], index: int = 0) -> None:
    """A bottom with an axis of channels."""
    if len(bottoms[index]) < 2:
        found = f"shape {list(bottoms[index])}"
        raise layer.bottom_error(index, "has no channels", expected="2 axes or more, N×C×...", found=found)


def positive(layer: LayerMessage, field: str, meaning: str = "", value: Any = None) -> None:
    """A field of 1 or more, or ``value`` in its stead. meaning: of a field that has no default."""
    value = getattr(layer.p, field) if value is None else value
    if value < 1:
        parts = {"remedy": f"set {field}, {meaning}"} if meaning else {"expected": "1 or more", "found": value}
        raise layer.error(f"{field} must be positive", field, **parts)


def labels(layer: LayerMessage, bottoms: list[Shape], count: int, index: int = 1, axis: int | None = None) -> None:
    """A bottom with one label for each of the ``count`` samples of the first bottom, or of its vectors along
    ``axis``."""
    if math.prod(bottoms[index]) != count:
        each, along = ("sample", "") if axis is None else ("vector", f" along axis {axis}")
        expected = f'{count} labels, one for each {each} of "{layer.spec.bottom[0]}" {list(bottoms[0])}{along}'
        found = f"{math.prod(bottoms[index])} {list(bottoms[index])}"
        raise layer.bottom_error(index, "does not fit", expected=expected, found=found)


def same_count(layer: LayerMessage, bottoms: list[Shape], a: int, b: int) -> None:
    """Two bottoms with as many values."""
    if math.prod(bottoms[a]) != math.prod(bottoms[b]):
        expected = f'{math.prod(bottoms[a])} values, as "{layer.spec.bottom[a]}" {list(bottoms[a])} has'
        found = f"{math.prod(bottoms[b])} {list(bottoms[b])}"
        raise layer.bottom_error(b, "does not fit", expected=expected, found=found)
