"""Concatenation without copies: finds the bottoms that can be stored in the top, as slices of its rows."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..layers.base.feeding import Feeding
from ..layers.concat_slice import Concat
from ..layers.convolution import Convolution
from .nodes import Graph, Node, Value, changed
from .packing import ALIGN
from .steps import Lifetimes

LARGE = 1 << 30  # numbers of a top from which on a kernel that knows only a slice would need wider indices
EACH = 8  # numbers that a GPU reads at once, at most: slices with a pitch begin and end at multiples of it


class Slice(NamedTuple):
    """Where a value is stored within a wider one. start: of its first number; pitch: from one of its rows to the next,
    0 where it is one row; both in numbers."""

    start: int
    pitch: int


Slices = dict[Value, tuple[Value, Slice]]  # by bottom: the top that stores it, and where in it


def store_in_tops(graph: Graph, lifetimes: Lifetimes, itemsize: Callable[[str | None], int]) -> Slices:
    """The bottoms of concatenations that are stored in the top; records them in the layers. None where shapes
    may change. itemsize: bytes of a number by its dtype."""
    slices: Slices = {}
    varied = graph.varied()
    for node in graph.nodes:
        if node in varied:
            continue
        bottoms = {}
        for i, bottom, region in _candidates(node):
            if _fits(bottom, node, region, lifetimes, itemsize):
                bottoms[i] = slices[bottom] = node.tops[0], region
        if bottoms:
            node.layer = changed(node.layer, stored=frozenset(bottoms))
    return slices


def _candidates(node: Node) -> Iterator[tuple[int, Value, Slice]]:
    """The bottoms of a concatenation that nobody else reads, and that are neither fed, nor views, nor concatenations
    themselves."""
    for i, (bottom, region) in enumerate(zip(node.bottoms, _top_slices(node), strict=False)):
        maker = bottom.node
        own = not (maker.layer.view or isinstance(maker.layer, Feeding) or _top_slices(maker))
        own = own and len(bottom.readers) == 1
        if own and bottom.dtype == node.tops[0].dtype:
            yield i, bottom, Slice(*region)


def _top_slices(node: Node) -> list[tuple[int, int]]:
    return node.layer.top_slices() if isinstance(node.layer, Concat) else []


def _fits(
    bottom: Value, reader: Node, region: Slice, lifetimes: Lifetimes, itemsize: Callable[[str | None], int]
) -> bool:
    """Whether a bottom can be stored at ``region`` in the top: kernels can read and write it there, and nobody
    overwrites the top while the bottom is still read."""
    if bottom in lifetimes.retained:
        return False
    if _overwrite_requested(reader.tops[0]) and lifetimes.last_read(bottom) > reader.index:
        return False
    if not region.pitch:
        return region.start * itemsize(bottom.dtype) % ALIGN == 0
    maker = lifetimes.fusions.runner(bottom.node)
    complete = lifetimes.fusions.last(maker) is bottom.node  # all that runs with the maker does so backward too
    aligned = not any(count % EACH for count in (*region, bottom.shape[1]))
    able = isinstance(maker.layer, Convolution) and maker.layer.takes_slices()
    return complete and able and math.prod(reader.tops[0].shape) < LARGE and aligned


def _overwrite_requested(value: Value) -> bool:
    """Whether the prototxt requests that a layer overwrites the value."""
    return any(reader.layer.in_place and reader.tops[0].name == value.name for reader, _ in value.readers)
