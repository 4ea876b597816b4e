"""The placement and the memory of a net that is divided over devices."""

import math
from dataclasses import dataclass

from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..net.compile import compile
from ..net.deferred import defers, kept_bytes
from ..net.graph import Graph
from ..net.micro_batches import settles
from ..net.partition.partition import partition
from ..net.partition.placement import DevicePosition, Placement
from ..net.partition.resolve import parse_split, resolve
from ..training.pipeline import in_flight
from . import summary
from .nets import InspectedNet
from .target import CPU


def placement_of(graph: Graph, split: str) -> Placement:
    """The placement of a net on one group of devices: of the layers' messages, else of ``split``. Errors: as of
    ``resolve``."""
    placement = resolve(graph, parse_split(split))
    assert placement
    return placement


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of one device. layers: of the net that it runs, by name; flights: micro-batches that it holds at
    once."""

    stage: int
    shard: int
    layers: list[str]
    flights: int
    memory: summary.Memory


def memory(
    subject: InspectedNet, phase: int, batch: int, placement: Placement, threads: int = 1, traits: DeviceTraits = CPU
) -> list[DeviceMemory]:
    """The memory of each device of a group, in the order of stages and shards, by compiling its part of the net.
    batch: samples of a group in an iteration. Errors: as of ``partition``."""
    if batch % placement.micro_batches:
        raise CaffeliteError(
            f"a batch of {batch} cannot be divided into {placement.micro_batches} micro-batches",
            remedy="use a number of micro-batches that divides the batch",
        )
    graph, _ = subject.graph(phase, batch // placement.micro_batches if placement.micro_batches > 1 else None)
    together = placement.micro_batches if any(map(settles, graph.nodes)) else 1
    stages = []
    for stage in range(placement.stages):
        for shard in range(placement.shards):
            piece = partition(graph, placement, DevicePosition(stage, shard))
            names = [node.name for node in piece.nodes if node.layer_index >= 0]
            flights = in_flight(stage, placement.stages, placement.micro_batches, together)
            deferred = (
                kept_bytes(piece, placement.micro_batches) if defers(placement.stages, placement.micro_batches) else 0
            )
            total = _of_piece(subject, piece, flights, threads, traits, deferred)
            stages.append(DeviceMemory(stage, shard, names, flights, total))
    return stages


def _of_piece(
    subject: InspectedNet, piece: Graph, flights: int, threads: int, traits: DeviceTraits, deferred: int
) -> summary.Memory:
    """deferred: bytes of the rows that weight gradients are computed from."""
    compiled = compile(piece, traits)
    weights = summary.BYTES * sum(math.prod(p.blob.shape) for p in piece.parameters)
    learns = bool(compiled.backward)
    return summary.Memory(
        weights,
        weights if learns else 0,
        weights * summary.histories(subject) if learns else 0,
        flights * compiled.arena + deferred,
        flights * compiled.arena + deferred,
        compiled.constant_bytes,
        summary.scratch(compiled, threads),
        summary.prefetched(piece),
        summary.KERNELS + summary.generated_code(piece, traits, learns),
    )
