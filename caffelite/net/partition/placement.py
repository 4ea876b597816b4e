"""The placement of a net's layers on the devices that train it together: plain data.

The devices of a model-parallel group form ``stages`` x ``shards``: consecutive layers run on consecutive stages, and
the ``shards`` devices of a stage divide its layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Division(Enum):
    """How the devices of a stage divide a layer.

    WHOLE: each computes all of it, or its part where the bottoms are divided and the layer works by channel or sample.
    OUTPUTS: each computes its part of the outputs. BATCH: each computes its part of the samples.
    """

    WHOLE = "whole"
    OUTPUTS = "outputs"
    BATCH = "batch"


@dataclass(frozen=True)
class LayerPlacement:
    """Where one layer runs: its stage, from 0, and how the devices of the stage divide it."""

    stage: int = 0
    division: Division = Division.WHOLE


@dataclass(frozen=True)
class Placement:
    """The placement of a net: the number of stages, of devices for each stage (``shards``), of micro-batches that a
    batch is divided into (1: as the prototxt has it), and the placement of each layer by its name."""

    stages: int = 1
    shards: int = 1
    micro_batches: int = 1
    layers: Mapping[str, LayerPlacement] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """The devices that hold one copy of the net."""
        return self.stages * self.shards


@dataclass(frozen=True)
class DevicePosition:
    """The part of a net that a device holds: its stage, and its place among the devices of the stage."""

    stage: int = 0
    shard: int = 0
