"""Concatenations without copies: which of their bottoms may lie where the top has them, as slices of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .graph import Node, Value
from .packing import ALIGN

LARGE = 1 << 30  # numbers of a top from which on a kernel that sees only a slice would need wider indices
EACH = 8  # numbers that a GPU reads at once, at most: slices with a pitch begin and end at multiples of it


class Slice(NamedTuple):
    """Where a value lies in the storage of a wider one. start: of its first number; pitch: from one of its rows to the
    next, 0 where it is one row; both in numbers."""

    start: int
    pitch: int


def find(nodes: Sequence[Node], may: Callable[[Value, Node, Slice], bool]) -> dict[Value, tuple[Value, Slice]]:
    """By bottoms of layers that have ``slots``: the top, and where in it they lie. may(bottom, reader, slice): what
    else there is to it.

    Such a bottom has no other reader, and is neither fed, nor a view, nor a concatenation itself. There are none where
    shapes may change.
    """
    found = {}
    for node in () if any(node.layer.varies for node in nodes) else nodes:
        for bottom, place in zip(node.bottoms, node.layer.slots(), strict=False):
            maker, place = bottom.node.layer, Slice(*place)
            own = not (maker.view or maker.feeds or maker.slots()) and len(bottom.readers) == 1
            if own and bottom.dtype == node.tops[0].dtype and may(bottom, node, place):
                found[bottom] = node.tops[0], place
    return found


def fits(bottom: Value, top: Value, place: Slice, itemsize: int, strided: bool) -> bool:
    """Whether a slice lies as kernels want it. strided: the bottom's maker knows slices with a pitch."""
    if not place.pitch:
        return place.start * itemsize % ALIGN == 0
    return strided and math.prod(top.shape) < LARGE and not any(count % EACH for count in (*place, bottom.shape[1]))


def wished(value: Value) -> bool:
    """Whether the prototxt asks for a layer that overwrites the value."""
    return any(reader.layer.in_place and reader.tops[0].name == value.name for reader, _ in value.readers)
