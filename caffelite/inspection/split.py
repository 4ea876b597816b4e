"""Forecasts of nets that are divided over devices, as text and as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..net.graph import Graph
from ..net.partition.placement import Division
from ..planner.planner import Forecast, StageForecast
from .memory import text as size

HEAD = ("arrangement", "groups", "micro-batches", "samples", "ms", "images/s", "bubble", "waiting", "memory", "sent")
STAGE_HEAD = (
    "stage",
    "layers",
    "divided",
    "forward ms",
    "backward ms",
    "memory",
    "to stages",
    "to shards",
    "to groups",
)


def table(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The lines of a table: the first ``left`` columns are aligned on the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]


def megabytes(count: float) -> str:
    """Bytes in MB, as links count them."""
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.3g} GB"


def comparison(forecasts: Sequence[Forecast], limit: float | None) -> list[str]:
    """A line for each forecast. limit: bytes of memory of a device."""
    rows = [HEAD]
    for one in forecasts:
        rows.append(
            (
                one.name,
                f"{one.groups}",
                f"{one.placement.micro_batches}",
                f"{one.groups * one.batch}",
                f"{one.seconds * 1e3:.4g}",
                f"{one.images:,.4g}" if one.images < 1000 else f"{one.images:,.0f}",
                f"{one.bubble:.1%}",
                f"{one.waiting / one.seconds:.1%}",
                size(one.memory) + (" (too much)" if limit and one.memory > limit else ""),
                megabytes(one.sent),
            )
        )
    return table(rows, 1)


def layers_of(graph: Graph, stage: StageForecast) -> str:
    """The layers of a stage, first and last."""
    first, last = graph.nodes[stage.layers[0]].name, graph.nodes[stage.layers[1] - 1].name
    return first if first == last else f"{first} to {last}"


def divided(graph: Graph, one: Forecast, stage: StageForecast, division: Division = Division.OUTPUTS) -> list[str]:
    """The layers of a stage that its devices divide by outputs, or otherwise."""
    placed = one.placement.layers
    names = [node.name for node in graph.nodes[slice(*stage.layers)]]
    return [name for name in names if placed[name].division is division]


def stages(graph: Graph, one: Forecast) -> list[str]:
    """A line for each stage of a forecast."""
    rows = [STAGE_HEAD]
    for number, stage in enumerate(one.stages):
        names = divided(graph, one, stage)
        rows.append(
            (
                f"{number}",
                layers_of(graph, stage),
                f"{len(names)} layers" if len(names) > 3 else " ".join(names),
                f"{stage.forward * 1e3:.4g}",
                f"{stage.backward * 1e3:.4g}",
                size(stage.memory),
                megabytes(stage.to_stages),
                megabytes(stage.to_shards),
                megabytes(stage.to_groups),
            )
        )
    return table(rows, 3)


def record(graph: Graph, one: Forecast) -> dict[str, Any]:
    """A forecast as JSON has it: seconds, bytes."""
    placement = one.placement
    return {
        "arrangement": one.name,
        "groups": one.groups,
        "stages": placement.stages,
        "shards": placement.shards,
        "micro_batches": placement.micro_batches,
        "samples": one.groups * one.batch,
        "seconds": one.seconds,
        "images_per_second": one.images,
        "bubble": one.bubble,
        "waiting": one.waiting,
        "memory": one.memory,
        "sent": one.sent,
        "by_stage": [
            {
                "layers": [node.name for node in graph.nodes[slice(*stage.layers)]],
                "divided": divided(graph, one, stage),
                "divided_samples": divided(graph, one, stage, Division.BATCH),
                "forward": stage.forward,
                "backward": stage.backward,
                "gradients": stage.gradients,
                "memory": stage.memory,
                "to_stages": stage.to_stages,
                "to_shards": stage.to_shards,
                "to_groups": stage.to_groups,
            }
            for stage in one.stages
        ],
    }
