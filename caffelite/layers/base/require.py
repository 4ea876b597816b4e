"""What many layers require of their bottoms and fields: each function raises the error, with all that it says."""

import math
from typing import Any

from .config import Shape
from .message import LayerMessage


def fits(
    layer: LayerMessage, bottoms: list[Shape], index: int, holds: object, expected: object, what: str = "does not fit"
) -> None:
    """A bottom of a shape for which a condition holds. expected: such a shape."""
    if not holds:
        raise layer.bottom_error(index, what, expected=expected, found=list(bottoms[index]))


def shape(layer: LayerMessage, bottoms: list[Shape], index: int, expected: Shape) -> None:
    """A bottom of one shape."""
    fits(layer, bottoms, index, bottoms[index] == expected, list(expected))


def images(layer: LayerMessage, bottoms: list[Shape], index: int = 0) -> Shape:
    """A bottom of images, N×C×H×W; returns its shape."""
    fits(layer, bottoms, index, len(bottoms[index]) == 4, "4 axes N×C×H×W", "is no batch of images")
    return bottoms[index]


def channels(layer: LayerMessage, bottoms: list[Shape], index: int = 0) -> Shape:
    """A bottom with an axis of channels; returns its shape."""
    fits(layer, bottoms, index, len(bottoms[index]) >= 2, "2 axes or more, N×C×...", "has no channels")
    return bottoms[index]


def boxes(layer: LayerMessage, bottoms: list[Shape], index: int) -> None:
    """A bottom of boxes, R×5."""
    rows = bottoms[index]
    is_list = rows and math.prod(rows[1:]) == 5
    fits(layer, bottoms, index, is_list, "R×5: image, x1, y1, x2, y2", "is no list of boxes")


def value(layer: LayerMessage, field: str, holds: object, expected: object) -> None:
    """A field for whose value a condition holds. expected: such a value."""
    if not holds:
        found = getattr(layer.p, field)
        found = f"{found:g}" if isinstance(found, float) else f'"{found}"' if isinstance(found, str) else found
        raise layer.error(f"a bad {field}", field, expected=expected, found=found)


def tops(layer: LayerMessage, count: int) -> None:
    """So many tops."""
    found = len(layer.spec.top)
    if found != count:
        what = f"has {found} tops for {len(layer.spec.bottom)} bottoms"
        raise layer.error(what, "top", max(0, min(found, count) - 1), expected=count, outer=True)


def positive(layer: LayerMessage, *fields: str, meaning: str = "", value: Any = None) -> None:
    """Fields of 1 or more, or ``value`` in their stead. meaning: of fields that have no default."""
    for field in fields:
        number = getattr(layer.p, field) if value is None else value
        if number < 1:
            parts = {"remedy": f"set {field}, {meaning}"} if meaning else {"expected": "1 or more", "found": number}
            raise layer.error(f"{field} must be positive", field, **parts)


def shares(layer: LayerMessage, *fields: str) -> None:
    """Fields from 0 to 1."""
    for field in fields:
        value(layer, field, 0 <= getattr(layer.p, field) <= 1, "0 to 1")


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
