"""The parameters of the complete net as checkpoints store them, also where processes hold parts of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ... import caffelite_pb2 as pb
from ... import weights
from ...devices.interfaces import Array
from ...net.net import Net
from ...net.parameters import PARAM_ALIGN
from ...net.partition.division import part_shape
from ..parts import CompleteNets, DividedNets

PIECE = 1 << 20  # numbers that are held at a time
TAG = 1 << 14  # of parameters on the links, above the tags of any net's transfers


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
            if node.place < 0:  # an inserted copy
                continue
            blobs = zip(node.layer.param_blobs, node.params, strict=True)
            yield node.layer.spec, [(tuple(blob.shape), ref.owner) for blob, ref in blobs]

    def load(self, flat: Array, index: int, values: np.ndarray) -> None:
        """Sets parameter ``index``'s numbers of a flat array. values: as many."""
        target = self._params.cut(flat, index)
        self._dev.upload(target, values.reshape(target.shape))


class PartParameters(NetParameters):
    """The parameters of a net that the processes of a group hold together. All processes of the first group call
    ``pieces``, ``blob`` and ``blobs`` together and take all pieces; rank 0 gets the numbers, the others none."""

    def __init__(self, net: Net, parts: DividedNets):
        super().__init__(net)
        self._graph = parts.complete(net)
        assert parts.mesh.links
        self._links, self._position, self._root = parts.mesh.links, parts.mesh.position, not parts.mesh.model.rank
        self._places, self._shards = parts.places(net), parts.placement.shards
        owners = [i for i, place in enumerate(self._places) if place.stage == self._position.stage]
        self._local = {owner: i for i, owner in enumerate(owners)}

    def pieces(self, flat: Array | None, index: int) -> Iterator[np.ndarray]:
        if flat is None:
            yield from super().pieces(flat, index)
            return
        self._connect()
        place = self._places[index]
        shards = 1 if place.axis is None else self._shards
        if place.axis and self._root:  # the parts of the devices interleave
            parts = [np.concatenate([*self._part(flat, index, shard)]) for shard in range(shards)]
            shape = part_shape(place.shape, place.axis, shards)
            yield np.concatenate([part.reshape(shape) for part in parts], place.axis).reshape(-1)
            return
        for shard in range(shards):
            yield from self._part(flat, index, shard)

    def _connect(self) -> None:
        """Makes the links from all devices with parameters to that of rank 0."""
        root = (0, 0)
        devices = {
            (place.stage, shard) for place in self._places for shard in range(1 if place.axis is None else self._shards)
        }
        self._links.connect((device, root) for device in devices - {root})

    def _part(self, flat: Array, index: int, shard: int) -> Iterator[np.ndarray]:
        """On rank 0 what a device has of a parameter, piece by piece. That device sends them."""
        place = self._places[index]
        here = (place.stage, shard) == (self._position.stage, self._position.shard)
        if here and self._root:
            yield from self._downloaded(self._params.cut(flat, self._local[index]))
        elif here or self._root:
            size = math.prod(part_shape(place.shape, place.axis, self._shards))
            mine = self._params.cut(flat, self._local[index]).reshape(-1) if here else None
            for start in range(0, size, PIECE):
                end = min(size, start + PIECE)
                if mine is not None:
                    self._links.send(mine[start:end], (0, 0), TAG).wait()
                    continue
                received = self._dev.empty((end - start,))
                self._links.receive(received, (place.stage, shard), TAG)
                yield self._dev.download(received)

    def load(self, flat: Array, index: int, values: np.ndarray) -> None:
        if index not in self._local:
            return
        place = self._places[index]
        if place.axis is not None:
            width = place.shape[place.axis] // self._shards
            start = self._position.shard * width
            cut = (slice(None),) * place.axis + (slice(start, start + width),)
            values = np.ascontiguousarray(values.reshape(place.shape)[cut])
        super().load(flat, self._local[index], values)


def parameters_of(net: Net, parts: CompleteNets) -> NetParameters:
    """The parameters of a net."""
    return PartParameters(net, parts) if isinstance(parts, DividedNets) else NetParameters(net)
