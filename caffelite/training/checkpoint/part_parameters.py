"""The parameters of a net that several processes hold together."""

import math
from collections.abc import Iterator

import numpy as np

from ...devices.types import Array
from ...net.net import Net
from ...net.partition.division import shard_shape
from ..partitioned_net import PartitionedNet
from .parameters import PIECE, NetParameters

TAG = 1 << 14  # of parameters on the links, above the tags of any net's transfers


class PartParameters(NetParameters):
    """The parameters of a net that the processes of a group hold together. All processes of the first group call
    ``pieces``, ``blob`` and ``blobs`` together and take all pieces; rank 0 gets the numbers, the others none."""

    def __init__(self, net: Net, division: PartitionedNet):
        super().__init__(net)
        self._graph = division.complete(net)
        assert division.mesh.links
        self._links = division.mesh.links
        self._position = division.mesh.position
        self._root = not division.mesh.model.rank
        self._places, self._shards = division.places(net), division.placement.shards
        owners = [i for i, location in enumerate(self._places) if location.stage == self._position.stage]
        self._local = {owner: i for i, owner in enumerate(owners)}

    def pieces(self, flat: Array | None, index: int) -> Iterator[np.ndarray]:
        if flat is None:
            yield from super().pieces(flat, index)
            return
        self._connect()
        location = self._places[index]
        shards = 1 if location.axis is None else self._shards
        if location.axis and self._root:  # the parts of the devices interleave
            parts = [np.concatenate([*self._part(flat, index, shard)]) for shard in range(shards)]
            shape = shard_shape(location.shape, location.axis, shards)
            yield np.concatenate([part.reshape(shape) for part in parts], location.axis).reshape(-1)
            return
        for shard in range(shards):
            yield from self._part(flat, index, shard)

    def _connect(self) -> None:
        """Makes the links from all devices with parameters to that of rank 0."""
        root = (0, 0)
        devices = {
            (location.stage, shard)
            for location in self._places
            for shard in range(1 if location.axis is None else self._shards)
        }
        self._links.connect((device, root) for device in devices - {root})

    def _part(self, flat: Array, index: int, shard: int) -> Iterator[np.ndarray]:
        """On rank 0 what a device has of a parameter, piece by piece. That device sends them."""
        location = self._places[index]
        here = (location.stage, shard) == (self._position.stage, self._position.shard)
        if here and self._root:
            yield from self._downloaded(self._params.cut(flat, self._local[index]))
        elif here or self._root:
            size = math.prod(shard_shape(location.shape, location.axis, self._shards))
            mine = self._params.cut(flat, self._local[index]).reshape(-1) if here else None
            for start in range(0, size, PIECE):
                end = min(size, start + PIECE)
                if mine is not None:
                    self._links.send(mine[start:end], (0, 0), TAG).wait()
                    continue
                received = self._dev.empty((end - start,))
                self._links.receive(received, (location.stage, shard), TAG)
                yield self._dev.download(received)

    def load(self, flat: Array, index: int, values: np.ndarray) -> None:
        if index not in self._local:
            return
        location = self._places[index]
        if location.axis is not None:
            width = location.shape[location.axis] // self._shards
            start = self._position.shard * width
            cut = (slice(None),) * location.axis + (slice(start, start + width),)
            values = np.ascontiguousarray(values.reshape(location.shape)[cut])
        super().load(flat, self._local[index], values)
