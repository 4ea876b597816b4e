"""Links of a device through the host's memory: what the processes exchange arrives in the device's arrays."""

import numpy as np

from caffelite.devices import open_device
from caffelite.parallel.transports.links import StagedLinks


class TwoEqualRanks:
    """What a process of two gets if the other one holds the same numbers."""

    def receive(self, array, peer, tag):
        array[...] = peer

    def all_gather(self, source, target):
        target[...] = np.concatenate([source, source])

    def reduce_scatter(self, source, target):
        target[...] = 2 * source[: target.size]

    def all_reduce(self, array):
        array *= 2


def test_what_is_exchanged_arrives_on_the_device(monkeypatch):
    dev = open_device()
    monkeypatch.setattr(dev, "download", np.array)  # a copy, as of another memory
    links, x = StagedLinks(dev, TwoEqualRanks()), np.arange(4, dtype=np.float32)
    links.all_reduce(x)
    assert x.tolist() == [0, 2, 4, 6]
    links.reduce_scatter(x, half := np.empty(2, np.float32))
    assert half.tolist() == [0, 4]
    links.all_gather(half, x)
    assert x.tolist() == [0, 4, 0, 4]
    links.receive(x, 3, 0)
    assert x.tolist() == [3, 3, 3, 3]
