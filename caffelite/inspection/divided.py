"""Nets that several devices divide: their placement, and the memory of each device."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..net.compile import compile
from ..net.deferred import defers, kept_bytes
from ..net.graph import Graph
from ..net.partition.partition import partition
from ..net.partition.placement import DevicePosition, Placement
from ..net.partition.resolve import from_messages, has_messages, parse_split
from ..planner.choice import place
from ..training.optim import updates
from . import summary
from .nets import InspectedNet
from .target import CPU


def placement_of(graph: Graph, split: str, traits: DeviceTraits = CPU) -> Placement:
    """The placement of a net on one group of devices: of the layers' messages, else of ``split``. Errors: also, a split
    that does not say how many devices."""
    request = parse_split(split)
    if has_messages(graph):
        return from_messages(graph, request.micro_batches)
    if request.automatic:
        raise CaffeliteError(
            "-split: the number of devices of a group is not given",
            expected="a number, or stages=2,shards=2, or hybrid=2",
            found=f'"{split}"',
            remedy="caffelite plan -split auto compares arrangements of a number of devices",
        )
    return place(graph, request, request.devices or request.stages * request.shards, traits)


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
    stages = []
    for stage in range(placement.stages):
        for shard in range(placement.shards):
            piece = partition(graph, placement, DevicePosition(stage, shard))
            names = [node.name for node in piece.nodes if node.place >= 0]
            flights = min(placement.stages - stage, placement.micro_batches)
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
    histories = 0
    if learns and subject.solver is not None and subject.solver.type in updates.RULES:
        histories = len(updates.RULES[subject.solver.type].history)
    return summary.Memory(
        weights,
        weights if learns else 0,
        weights * histories,
        flights * compiled.arena + deferred,
        flights * compiled.arena + deferred,
        compiled.constant_bytes,
        summary.scratch(compiled, threads),
        summary.prefetched(piece),
        summary.KERNELS + summary.generated_code(piece, traits, learns),
    )
