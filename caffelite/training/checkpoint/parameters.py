"""The parameters of the complete net as checkpoints store them, also where processes hold parts of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.interfaces import Array
from ...net.net import Net
from ...net.parameters import PARAM_ALIGN
from ...net.partition.analysis import ParameterPlace
from ...net.partition.division import part_shape
from ..parts import CompleteNets, DividedNets

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

    def blob(self, flat: Array | None, index: int) -> np.ndarray:
        """Parameter ``index``'s numbers of a flat array; zeros for None."""
        if flat is None:
            return np.zeros(self._graph.parameters[index].blob.shape, self._dev.dtype)
        return self._dev.download(self._params.cut(flat, index))

    def blobs(self, flat: Array) -> Iterator[np.ndarray]:
        """The numbers of all parameters, one after the other."""
        return (self.blob(flat, i) for i in range(len(self._graph.parameters)))

    def layers(self, *flats: Array | None) -> Iterator[tuple[pb.LayerParameter, list[tuple[np.ndarray, ...]]]]:
        """Every layer with its parameters, each with its numbers of all ``flats``."""
        for node in self._graph.nodes:
            if node.place < 0:  # an inserted copy
                continue
            found = []
            for blob, ref in zip(node.layer.param_blobs, node.params, strict=True):
                arrays = (self.blob(flat, ref.owner) for flat in flats)
                found.append(tuple(array.reshape(blob.shape) if array.size else array for array in arrays))
            yield node.layer.spec, found

    def load(self, flat: Array, index: int, values: np.ndarray) -> None:
        """Sets parameter ``index``'s numbers of a flat array. values: as many."""
        target = self._params.cut(flat, index)
        self._dev.upload(target, values.reshape(target.shape))


class PartParameters(NetParameters):
    """The parameters of a net that the processes of a group hold together. All processes of the first group call
    ``blob``, ``blobs`` and ``layers`` together; rank 0 gets the numbers, the others empty ones."""

    def __init__(self, net: Net, parts: DividedNets):
        super().__init__(net)
        self._graph = parts.complete(net)
        self._links, self._position, self._root = parts.mesh.links, parts.mesh.position, not parts.mesh.model.rank
        self._places, self._shards = parts.places(net), parts.placement.shards
        owners = [i for i, place in enumerate(self._places) if place.stage == self._position.stage]
        self._local = {owner: i for i, owner in enumerate(owners)}

    def blob(self, flat: Array | None, index: int) -> np.ndarray:
        if flat is None:
            return super().blob(flat, index)
        place = self._places[index]
        mine = self._params.cut(flat, self._local[index]) if index in self._local else None
        sends = mine is not None and (place.axis is not None or not self._position.shard)
        if not self._root:
            if sends:
                assert self._links
                self._links.send(mine, (0, 0), TAG).wait()
            return np.empty(0, self._dev.dtype)
        parts = [] if mine is None else [self._dev.download(mine)]
        for shard in range(len(parts), 1 if place.axis is None else self._shards):
            parts.append(self._receive(place, shard))
        return parts[0] if place.axis is None else np.concatenate(parts, place.axis)

    def _receive(self, place: ParameterPlace, shard: int) -> np.ndarray:
        """What a device has of a parameter."""
        assert self._links
        received = self._dev.empty(part_shape(place.shape, place.axis, self._shards))
        self._links.receive(received, (place.stage, shard), TAG)
        return self._dev.download(received)

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
