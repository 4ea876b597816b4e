"""What each possible stage of a net costs: the layers from one boundary to another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..net.compile import CompiledNet
from ..net.graph import Graph, Value
from ..net.packing import Storage
from .costs import owners
from .sharding import size


def boundaries(graph: Graph, compiled: CompiledNet) -> list[int]:
    """The places where the layers can be cut, as the index of the layer behind; also 0 and the number of layers. Layers
    that share a parameter stay together, and layers that run as one step where they are consecutive."""
    closed: set[int] = set()
    for parameter in range(len(graph.parameters)):
        readers = [n.index for n in graph.nodes if any(ref.owner == parameter for ref in n.params)]
        if readers:
            closed.update(range(min(readers) + 1, max(readers) + 1))
    original = {new: old.index for old, new in compiled.nodes.items()}
    for step in compiled.forward:
        run = [original[n] for n in (step.node, *step.fused) if n in original]
        if run == list(range(run[0], run[0] + len(run))) if run else False:
            closed.update(range(run[0] + 1, run[-1] + 1))
    count = len(graph.nodes)
    return [b for b in range(count + 1) if b not in closed]


def sums(values: np.ndarray, boundaries: Sequence[int]) -> np.ndarray:
    """(B, B): the sum of ``values`` (N,) of the layers from boundary i up to boundary j."""
    total = np.concatenate([[0.0], np.cumsum(values)])[list(boundaries)]
    return total[None, :] - total[:, None]


@dataclass(frozen=True, eq=False)
class BoundaryTraffic:
    """By stage (B, B), for a complete batch: bytes that it receives from earlier stages and sends to later ones,
    forward; ``..._back``: those values' gradients; the number of values; and bytes of memory for all of them."""

    received: np.ndarray
    sent: np.ndarray
    received_back: np.ndarray
    sent_back: np.ndarray
    values_received: np.ndarray
    values_sent: np.ndarray
    buffers: np.ndarray


def boundary_traffic(
    graph: Graph, boundaries: Sequence[int], divisors: Mapping[Value, float], copied: Collection[Value] = ()
) -> BoundaryTraffic:
    """The values that cross the ends of each possible stage. A value that several later stages read counts once where
    it is sent, and on each stage that reads it. divisors: over how many devices a value is divided. copied: the values
    that are stored in another layout than links have."""
    count = len(boundaries)
    traffic = BoundaryTraffic(*(np.zeros((count, count)) for _ in range(7)))
    after = np.searchsorted(boundaries, np.arange(len(graph.nodes)), side="right")  # the first boundary behind a layer
    for node in graph.nodes:
        for value in node.tops:
            readers = sorted({r.index for r, _ in value.readers})
            if not readers:
                continue
            amount = size(value) / divisors.get(value, 1)
            back = amount * value.gradient
            held = (amount + back) * (2 if value in copied else 1)
            low, high = after[node.index], after[readers[-1]]
            for into, of in (
                (traffic.sent, amount),
                (traffic.sent_back, back),
                (traffic.values_sent, 1 + value.gradient),
                (traffic.buffers, held),
            ):
                into[:low, low:high] += of
            begin = low
            for reader in readers:
                end = after[reader]
                for into, of in (
                    (traffic.received, amount),
                    (traffic.received_back, back),
                    (traffic.values_received, 1 + value.gradient),
                    (traffic.buffers, held),
                ):
                    into[begin:end, end:] += of
                begin = max(begin, end)
    return traffic


def activations(
    graph: Graph, compiled: CompiledNet, boundaries: Sequence[int], divisors: Mapping[Value, float]
) -> np.ndarray:
    """(B, B): about how many bytes of blobs, gradients and saved arrays a stage holds at most at once."""
    of = owners(graph, compiled)
    order = np.array([of[n] for n in compiled.graph.nodes])
    starts = np.searchsorted(order, boundaries, side="left")  # by boundary: the first step behind it
    length, count = len(order), len(boundaries)
    held = _storages(compiled, divisors)
    first = np.array([min(s.first, 2 * length - 1) for s, _ in held], int)
    last = np.array([min(s.last, 2 * length - 1) for s, _ in held], int)
    amounts = np.array([amount for _, amount in held])
    held_bytes = np.zeros((count, count))
    for i, begin in enumerate(starts[:-1]):
        end = 2 * length - begin
        inside = (first >= begin) & (first < end)
        change = np.zeros(2 * length + 1)
        np.add.at(change, first[inside], amounts[inside])
        np.add.at(change, np.minimum(last[inside], end - 1) + 1, -amounts[inside])
        used = np.cumsum(change)
        forward = np.maximum.accumulate(used[begin:length])
        backward = np.maximum.accumulate(used[length:end][::-1])
        for j in range(i + 1, count):
            steps = starts[j] - begin
            if steps:
                held_bytes[i, j] = max(forward[steps - 1], backward[steps - 1])
    return held_bytes


def _storages(compiled: CompiledNet, divisors: Mapping[Value, float]) -> list[tuple[Storage, float]]:
    """The storages of the arena, each with its bytes on one device."""
    shares: dict[Value, float] = {new: divisors.get(old, 1) for old, new in compiled.values.items()}
    for node in compiled.graph.nodes:
        for top in node.tops:
            if top not in shares:
                shares[top] = shares.get(node.bottoms[0], 1) if node.bottoms else 1
    amounts: dict[Storage, float] = {}

    def hold(storage: Storage, share: float) -> None:
        if not storage.constant:
            amounts[storage] = max(amounts.get(storage, 0.0), storage.bytes / share)

    for table in (compiled.data, compiled.diff):
        for value, storage in table.items():
            hold(storage, shares[value])
    for node, saved in compiled.saved.items():
        for storage in saved.values():
            hold(storage, shares[node.tops[0]] if node.tops else 1)
    for step in compiled.backward:
        for i, storage in step.partial.items():
            hold(storage, shares[step.bottoms[i][0]])
    return list(amounts.items())
