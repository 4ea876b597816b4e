"""The parameters of a net in pieces, as they are read for a checkpoint and loaded from one."""

import math
from collections.abc import Iterator

import numpy as np

from ... import caffelite_pb2 as pb, weights
from ...devices.types import Array
from ...net.net import Net
from ...net.parameters import PARAM_ALIGN

PIECE = 1 << 20  # numbers that are held at a time


class NetParameters:
    """The parameters of a net, all of which this process holds. A ``flat`` array of the device is as large as all of
    this process's parameters."""

    def __init__(self, net: Net):
        self._net, self._dev, self._params, self._graph = net, net.dev, net.params, net.graph

    @property
    def size(self) -> int:
        """The numbers of all parameters, each rounded up as in a flat array."""
        return sum(-(-math.prod(shape) // PARAM_ALIGN) * PARAM_ALIGN for shape in self.shapes())

    def label(self, index: int) -> str:
        """The name of a parameter in messages."""
        return self._graph.parameters[index].label

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all parameters, in order."""
        return [tuple(parameter.blob.shape) for parameter in self._graph.parameters]

    def pieces(self, flat: Array | None, index: int) -> Iterator[np.ndarray]:
        """Parameter ``index``'s numbers of a flat array in their order, at most PIECE at a time; zeros for None."""
        if flat is None:
            size = math.prod(self._graph.parameters[index].blob.shape)
            for start in range(0, size, PIECE):
                yield np.zeros(min(PIECE, size - start), self._dev.dtype)
        else:
            yield from self._downloaded(self._params.cut(flat, index))

    def _downloaded(self, blob: Array) -> Iterator[np.ndarray]:
        flat = blob.reshape(-1)
        return (self._dev.download(flat[start : start + PIECE]) for start in range(0, flat.size, PIECE))

    def blob(self, flat: Array | None, index: int) -> np.ndarray:
        """The same as one array in the parameter's shape."""
        shape = self._graph.parameters[index].blob.shape
        joined = np.concatenate([np.empty(0, self._dev.dtype), *self.pieces(flat, index)])
        return joined.reshape(shape) if joined.size == math.prod(shape) else joined

    def blobs(self, flat: Array) -> Iterator[np.ndarray]:
        """The numbers of all parameters, one after the other."""
        return (self.blob(flat, i) for i in range(len(self._graph.parameters)))

    def streamed(self, index: int, data: Array, diff: Array | None = None, shares: int = 1) -> weights.StreamedBlob:
        """Parameter ``index``'s numbers of a flat array, and of ``diff`` divided by ``shares``, to be encoded."""
        diffs = None if diff is None else (piece / shares for piece in self.pieces(diff, index))
        return weights.StreamedBlob(self.shapes()[index], self.pieces(data, index), diffs)

    def layers(self) -> Iterator[tuple[pb.LayerParameter, list[tuple[tuple[int, ...], int]]]]:
        """Every layer with the shape and the index of each of its parameters."""
        for node in self._graph.nodes:
            if node.layer_index < 0:  # an inserted copy
                continue
            blobs = zip(node.layer.param_blobs, node.params, strict=True)
            yield node.layer.spec, [(tuple(blob.shape), ref.owner) for blob, ref in blobs]

    def load(self, flat: Array, index: int, values: np.ndarray) -> None:
        """Sets parameter ``index``'s numbers of a flat array. values: as many."""
        target = self._params.cut(flat, index)
        self._dev.upload(target, values.reshape(target.shape))
