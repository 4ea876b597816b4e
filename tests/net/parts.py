"""Trains a net as a whole and in parts, and compares the numbers."""

from collections.abc import Callable

import numpy as np
from links import Exchange, ThreadLinks

from caffelite.devices.cpu import CPU
from caffelite.net.graph import Graph
from caffelite.net.net import Net
from caffelite.net.partition.analysis import Analysis, ParameterPlace
from caffelite.net.partition.partition import part
from caffelite.net.partition.placement import DevicePosition, Placement

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

    def __init__(self, part: Graph, dev: CPU, stages: int, stage: int, count: int, links=None, rate=0.05, **options):
        self.net = Net.of(part, dev, seed=3, random_seed=3, links=links, **options)
        self.rate = rate
        self.order = one_forward_one_backward(stages, stage, count)
        flight = min(stages - stage, count)
        self.nets = [self.net, *[self.net.replica() for _ in range(flight - 1)]]
        self.losses: list[dict[str, float]] = []

    def iterate(self, iteration: int, count: int, feed: Feed | None, update: Callable[["Rank"], None]) -> None:
        actual: dict[str, float] = {}
        for forward, m in self.order:
            net = self.nets[m % len(self.nets)]
            if forward:
                if feed:
                    feed(net, iteration, m)
                net.forward(iteration, iteration * count + m)
                for value, weight in net.graph.losses:
                    actual[value.name] = actual.get(value.name, 0.0) + weight * float(np.sum(net.data[value])) / count
            elif net.compiled.backward:
                net.backward(add=m > 0)
        self.losses.append(actual)
        update(self)
        if self.net.params.diff is not None:
            self.net.params.data -= self.net.params.data.dtype.type(self.rate / count) * self.net.params.diff


def train_whole(graph: Graph, iterations: int, count: int = 1, feed: Feed | None = None, dtype="float64", **options):
    """Trains a net in one piece, with ``count`` micro-batches for each iteration."""
    rank = Rank(graph, CPU(dtype), 1, 0, count, **options)
    for iteration in range(iterations):
        rank.iterate(iteration, count, feed, lambda rank: None)
    actual = Trained()
    actual.losses = rank.losses
    for i, p in enumerate(rank.net.params.parameters):
        actual.parameters[p.node.name, p.index] = rank.net.params.blobs[i].copy()
        if rank.net.params.diff is not None:
            actual.gradients[p.node.name, p.index] = rank.net.params.diffs[i].copy()
    return actual


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
    division = Analysis(graph, placement)
    places = {(p.layer, p.index): p for p in division.parameters}
    actual = Trained()

    def sum_gradients(rank: Rank) -> None:
        """Of layers that are divided by samples."""
        for i, p in enumerate(rank.net.params.parameters):
            if places[p.node.name, p.index].sums_gradients and rank.net.params.diff is not None:
                rank.net.context.links.all_reduce(rank.net.params.diffs[i])

    def run(stage: int, shard: int) -> None:
        links = ThreadLinks(exchange, stage, shard)
        own = part(division, DevicePosition(stage, shard))
        rank = ranks[stage, shard] = Rank(own, CPU(dtype), placement.stages, stage, count, links, **options)
        for iteration in range(iterations):
            rank.iterate(iteration, count, feed, sum_gradients)
        actual.bytes[stage, shard] = links.bytes

    positions = [(stage, shard) for stage in range(placement.stages) for shard in range(placement.shards)]
    exchange.run(*[lambda place=place: run(*place) for place in positions])
    assert not any(exchange.messages.values()), "messages that nobody has received"
    actual.losses = [{} for _ in range(iterations)]
    for stage in range(placement.stages):
        shards = [ranks[stage, shard].net for shard in range(placement.shards)]
        assert all(ranks[stage, shard].losses == ranks[stage, 0].losses for shard in range(placement.shards))
        for mine, theirs in zip(actual.losses, ranks[stage, 0].losses, strict=True):
            mine.update(theirs)
        for i, p in enumerate(shards[0].params.parameters):
            key = p.node.name, p.index
            actual.parameters[key] = joined([net.params.blobs[i] for net in shards], places[key])
            if shards[0].params.diff is not None:
                actual.gradients[key] = joined([net.params.diffs[i] for net in shards], places[key])
    return actual


def joined(parts: list[np.ndarray], place: ParameterPlace) -> np.ndarray:
    """A whole parameter from those of the devices of its stage."""
    if place.axis is None:
        for other in parts[1:]:
            np.testing.assert_array_equal(parts[0], other, f"{place.layer}[{place.index}] differs between shards")
        whole = parts[0].copy()
    else:
        whole = np.concatenate(parts, place.axis)
    assert whole.shape == place.shape
    return whole


def assert_same(parts: Trained, whole: Trained, tolerance: float = 1e-10) -> None:
    """Losses, gradients and parameters agree, relative to the largest number of each."""
    for mine, theirs in zip(parts.losses, whole.losses, strict=True):
        assert mine.keys() == theirs.keys()
        for name, loss in theirs.items():
            assert abs(mine[name] - loss) <= tolerance * max(1, abs(loss)), name
    for what in ("gradients", "parameters"):
        mine, theirs = getattr(parts, what), getattr(whole, what)
        if not theirs:  # a net that learns nothing
            theirs = {key: np.zeros_like(array) for key, array in mine.items()}
        assert mine.keys() == theirs.keys()
        for key, array in theirs.items():
            scale = max(np.abs(array).max(initial=0), 1e-3)
            np.testing.assert_allclose(
                mine[key] / scale, array / scale, rtol=0, atol=tolerance, err_msg=f"{what} {key}"
            )
