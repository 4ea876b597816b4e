"""Trains a net as a whole and in parts, and compares the numbers."""

from collections.abc import Callable

import numpy as np
from links import Exchange, ThreadLinks

from caffelite.devices.cpu import CPU
from caffelite.net.graph import Graph
from caffelite.net.net import Net
from caffelite.net.partition.partition import Partition
from caffelite.net.partition.placement import DevicePosition, Placement

RATE = 0.05
Feed = Callable[[Net, int, int], None]  # net, iteration, micro-batch: fills the net's Input blobs


class Trained:
    """What training has left: the losses of each iteration by layer, the parameters and last gradients by label, and
    the bytes that each part has sent."""

    def __init__(self):
        self.losses: list[dict[str, float]] = []
        self.parameters: dict[tuple[str, int], np.ndarray] = {}
        self.gradients: dict[tuple[str, int], np.ndarray] = {}
        self.bytes: dict[tuple[int, int], int] = {}


def one_forward_one_backward(stages: int, stage: int, count: int) -> list[tuple[bool, int]]:
    """(forward, micro-batch) in the order of a stage."""
    ahead = min(stages - 1 - stage, count)
    order = [(True, i) for i in range(ahead)]
    for i in range(count):
        order += [(True, i + ahead)] if i + ahead < count else []
        order.append((False, i))
    return order


class Rank:
    """One part that trains: its nets, one for each micro-batch in flight."""

    def __init__(
        self, part: Graph, dev: CPU, stages: int, stage: int, count: int, links=None, seed: int = 3, **options
    ):
        self.net = Net.of(part, dev, seed=3, random_seed=3, links=links, **options)
        self.order = one_forward_one_backward(stages, stage, count)
        flight = min(stages - stage, count)
        self.nets = [self.net, *[self.net.replica() for _ in range(flight - 1)]]
        self.losses: list[dict[str, float]] = []

    def iterate(self, iteration: int, count: int, feed: Feed | None, update: Callable[["Rank"], None]) -> None:
        found: dict[str, float] = {}
        for forward, m in self.order:
            net = self.nets[m % len(self.nets)]
            if forward:
                if feed:
                    feed(net, iteration, m)
                net.forward(iteration, iteration * count + m)
                for value, weight in net.graph.losses:
                    found[value.name] = found.get(value.name, 0.0) + weight * float(np.sum(net.data[value])) / count
            elif net.compiled.backward:
                net.backward(add=m > 0)
        self.losses.append(found)
        update(self)
        if self.net.params.diff is not None:
            self.net.params.data -= RATE / count * self.net.params.diff


def train_whole(graph: Graph, iterations: int, count: int = 1, feed: Feed | None = None, dtype="float64", **options):
    """Trains a net in one piece, with ``count`` micro-batches for each iteration."""
    rank = Rank(graph, CPU(dtype), 1, 0, count, **options)
    for iteration in range(iterations):
        rank.iterate(iteration, count, feed, lambda rank: None)
    found = Trained()
    found.losses = rank.losses
    for i, p in enumerate(rank.net.params.parameters):
        found.parameters[p.node.name, p.index] = rank.net.params.blobs[i].copy()
        if rank.net.params.diff is not None:
            found.gradients[p.node.name, p.index] = rank.net.params.diffs[i].copy()
    return found


def train_parts(
    graph: Graph,
    placement: Placement,
    iterations: int,
    count: int = 1,
    feed: Feed | None = None,
    dtype="float64",
    **options,
):
    """Trains a net in parts, each a thread."""
    exchange, ranks = Exchange(placement.shards), {}
    division = Partition(graph, placement)
    found = Trained()

    def run(stage: int, shard: int) -> None:
        links = ThreadLinks(exchange, stage, shard)
        part = division.part(DevicePosition(stage, shard))
        rank = ranks[stage, shard] = Rank(part, CPU(dtype), placement.stages, stage, count, links, **options)
        for iteration in range(iterations):
            rank.iterate(iteration, count, feed, lambda rank: None)
        found.bytes[stage, shard] = links.bytes

    places = [(stage, shard) for stage in range(placement.stages) for shard in range(placement.shards)]
    exchange.run(*[lambda place=place: run(*place) for place in places])
    assert not any(exchange.messages.values()), "messages that nobody has received"
    found.losses = [{} for _ in range(iterations)]
    for stage in range(placement.stages):
        rank = ranks[stage, 0]
        for mine, theirs in zip(found.losses, rank.losses, strict=True):
            mine.update(theirs)
        for i, p in enumerate(rank.net.params.parameters):
            found.parameters[p.node.name, p.index] = rank.net.params.blobs[i].copy()
            if rank.net.params.diff is not None:
                found.gradients[p.node.name, p.index] = rank.net.params.diffs[i].copy()
    return found


def assert_same(parts: Trained, whole: Trained, tolerance: float = 1e-10) -> None:
    """Losses, gradients and parameters agree, relative to the largest number of each."""
    for mine, theirs in zip(parts.losses, whole.losses, strict=True):
        assert mine.keys() == theirs.keys()
        for name, loss in theirs.items():
            assert abs(mine[name] - loss) <= tolerance * max(1, abs(loss)), name
    for what in ("gradients", "parameters"):
        mine, theirs = getattr(parts, what), getattr(whole, what)
        assert mine.keys() == theirs.keys()
        for key, array in theirs.items():
            scale = max(np.abs(array).max(initial=0), 1e-3)
            np.testing.assert_allclose(
                mine[key] / scale, array / scale, rtol=0, atol=tolerance, err_msg=f"{what} {key}"
            )
