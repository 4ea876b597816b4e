"""What a user asks of an arrangement."""

from __future__ import annotations

from dataclasses import dataclass

from ..net.partition.resolve import SplitRequest


@dataclass(frozen=True)
class Request:
    """What the user asks of an arrangement; None: anything. devices: of a group. hybrid: its devices too, where its
    convolutions divide the batch and its inner products their outputs."""

    devices: int | None = None
    stages: int | None = None
    shards: int | None = None
    micro_batches: int | None = None
    hybrid: int | None = None


def of_split(split: SplitRequest) -> Request:
    """The request that -split makes. The planner chooses the micro-batches where it chooses the stages."""
    if split.automatic or split.devices:
        return Request(split.devices or None, micro_batches=split.micro_batches if split.micro_batches > 1 else None)
    if split.hybrid:
        return Request(split.shards, 1, None, split.micro_batches, split.shards)
    return Request(split.stages * split.shards, split.stages, split.shards, split.micro_batches)
