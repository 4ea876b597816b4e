"""Finds what changes with the height and width of a net's images, for an export that leaves both open."""

from __future__ import annotations

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from ..layers.feeding import is_input
from ..net.graph import Graph, Value

STEP = (64, 128)  # more rows and columns: what halves an image up to six times still fits


def larger(message: pb.NetParameter) -> pb.NetParameter:
    """The net with larger images: every Input top N×C×H×W has more rows and columns. Errors: there is no such input."""
    new = pb.NetParameter()
    new.CopyFrom(message)
    count = 0
    for spec in new.layer:
        for shape in spec.input_param.shape if is_input(spec) else ():
            if len(shape.dim) == 4:
                shape.dim[2:] = [shape.dim[2] + STEP[0], shape.dim[3] + STEP[1]]
                count += 1
    if not count:
        raise CaffeliteError("no input is a batch of images", expected="an Input layer with N×C×H×W")
    return new


def free_axes(graph: Graph, other: Graph) -> dict[Value, tuple[int, ...]]:
    """The axes of each blob that change with the size of images. other: the graph of the ``larger`` net.

    Errors: a layer whose weights change with it, all of them in one error.
    """
    free: dict[Value, tuple[int, ...]] = {}
    for node, twin in zip(graph.nodes, other.nodes, strict=True):
        for spec, second in zip(node.layer.param_blobs, twin.layer.param_blobs, strict=True):
            if spec.shape != second.shape:
                what = "its weights fix the size of images, which cannot be open"
                remedy = "export without --free_size, or make it a Convolution"
                raise node.layer.error(what, remedy=remedy)
        for value, top in zip(node.tops, twin.tops, strict=True):
            pairs = zip(value.shape, top.shape, strict=True)
            free[value] = tuple(axis for axis, (one, two) in enumerate(pairs) if axis and one != two)
    return free
