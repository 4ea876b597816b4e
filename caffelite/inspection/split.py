"""Forecasts of nets that are divided over devices, as text and as records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..net.compile import compile
from ..net.deferred import defers, kept_bytes
from ..net.graph import Graph
from ..net.partition.partition import partition
from ..net.partition.placement import DevicePosition, Division, Placement
from ..net.partition.resolve import from_messages, has_messages, parse_split
from ..planner.choice import place
from ..planner.planner import Forecast, StageForecast
from . import summary
from .memory import text as size
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
            names = [node.name for node in piece.nodes if node.layer_index >= 0]
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


HEAD = ("arrangement", "groups", "micro-batches", "samples", "ms", "images/s", "bubble", "waiting", "memory", "sent")
STAGE_HEAD = (
    *("stage", "layers", "divided", "forward ms", "backward ms"),
    *("memory", "to stages", "to shards", "to groups"),
)


def megabytes(count: float) -> str:
    """Bytes in MB, as links count them."""
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.3g} GB"


def comparison(forecasts: Sequence[Forecast], limit: float | None) -> list[tuple[str, ...]]:
    """A head, and a row for each forecast. limit: bytes of memory of a device."""
    rows: list[tuple[str, ...]] = [HEAD]
    for one in forecasts:
        counts = map(str, (one.groups, one.placement.micro_batches, one.groups * one.batch))
        speed = f"{one.seconds * 1e3:.4g}", f"{one.images:,.4g}" if one.images < 1000 else f"{one.images:,.0f}"
        idle = f"{one.bubble:.1%}", f"{one.waiting / one.seconds:.1%}"
        memory = size(one.memory) + (" (too much)" if limit and one.memory > limit else "")
        rows.append((one.name, *counts, *speed, *idle, memory, megabytes(one.sent)))
    return rows


def layers_of(graph: Graph, stage: StageForecast) -> str:
    """The layers of a stage, first and last."""
    first, last = graph.nodes[stage.layers[0]].name, graph.nodes[stage.layers[1] - 1].name
    return first if first == last else f"{first} to {last}"


def divided(graph: Graph, one: Forecast, stage: StageForecast, division: Division = Division.OUTPUTS) -> list[str]:
    """The layers of a stage that its devices divide by outputs, or otherwise."""
    placed = one.placement.layers
    names = [node.name for node in graph.nodes[slice(*stage.layers)]]
    return [name for name in names if placed[name].division is division]


def stages(graph: Graph, one: Forecast) -> list[tuple[str, ...]]:
    """A head, and a row for each stage of a forecast."""
    rows: list[tuple[str, ...]] = [STAGE_HEAD]
    for number, stage in enumerate(one.stages):
        names = divided(graph, one, stage)
        shared = f"{len(names)} layers" if len(names) > 3 else " ".join(names)
        times = f"{stage.forward * 1e3:.4g}", f"{stage.backward * 1e3:.4g}"
        sent = map(megabytes, (stage.to_stages, stage.to_shards, stage.to_groups))
        rows.append((f"{number}", layers_of(graph, stage), shared, *times, size(stage.memory), *sent))
    return rows


def record(graph: Graph, one: Forecast) -> dict[str, Any]:
    """A forecast as JSON has it: seconds, bytes."""
    placement = one.placement
    measures = ("forward", "backward", "gradients", "memory", "to_stages", "to_shards", "to_groups")
    stages = [
        {
            "layers": [node.name for node in graph.nodes[slice(*stage.layers)]],
            "divided": divided(graph, one, stage),
            "divided_samples": divided(graph, one, stage, Division.BATCH),
            **{name: getattr(stage, name) for name in measures},
        }
        for stage in one.stages
    ]
    return {
        "arrangement": one.name,
        "groups": one.groups,
        **{name: getattr(placement, name) for name in ("stages", "shards", "micro_batches")},
        "samples": one.groups * one.batch,
        "images_per_second": one.images,
        **{name: getattr(one, name) for name in ("seconds", "bubble", "waiting", "memory", "sent")},
        "by_stage": stages,
    }
