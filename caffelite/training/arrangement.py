"""Arranges the processes of a job: which of them share the samples, and which divide the net."""

from __future__ import annotations

import functools

from .. import data
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..net import graph
from ..net.partition import resolve
from ..net.partition.analysis import Analysis
from ..net.partition.placement import Placement
from ..parallel import MeshShape, SingleProcess, agreed
from ..planner.choice import place
from . import nets
from .parts import CompleteNets, DividedNets


def arrange(split: str, train: nets.NetSpec, comm: SingleProcess, dev: Device, strong_scaling: bool) -> CompleteNets:
    """The parts of the nets that the processes hold. The batches of ``train`` become those of one pass.

    split: how the net is divided, as `caffelite train -split` takes it; empty: as the placements of its layers say.
    strong_scaling: the processes divide the prototxt's batches among them. Errors: a net that cannot be divided so;
    another number of processes than it takes.
    """
    if not split and not any(layer.HasField("placement") for layer in train.message.layer):
        if strong_scaling:
            nets.divide(train, comm.size)
        return CompleteNets(comm.mesh(None, dev))
    placement, shape = agreed(comm, lambda: _placed(split, train, comm, dev, strong_scaling))
    if strong_scaling:
        nets.divide(train, shape.groups)
    if placement.micro_batches > 1:
        nets.divide(train, placement.micro_batches, "micro-batches", "choose another number of micro_batches")
    return DividedNets(comm.mesh(shape, dev), placement)


def _placed(
    split: str, train: nets.NetSpec, comm: SingleProcess, dev: Device, strong: bool
) -> tuple[Placement, MeshShape]:
    """The placement of the layers of a train net, and the arrangement of the processes."""
    wiring = graph.build(train.message, train.state, train.locate, functools.partial(data.open_source, seed=0))
    for node in wiring.nodes:
        if getattr(node.layer, "source", None) is not None:
            node.layer.source.close()
    request = resolve.parse_split(split) if split else None
    if request and not resolve.has_messages(wiring):
        asked = request.devices or request.stages * request.shards
        devices = comm.size if request.automatic or comm.size % asked == 0 else asked
        placement = place(wiring, request, devices, dev.traits, memory=dev.traits.memory, strong=strong)
    else:
        resolved = resolve.resolve(wiring, request)
        assert resolved, "there is a request, or there are messages"
        placement = resolved
    Analysis(wiring, placement)
    return placement, _shape(placement, comm)


def _shape(placement: Placement, comm: SingleProcess) -> MeshShape:
    """The arrangement of the processes. Errors: their number is no multiple of the devices that one copy of the net
    takes."""
    devices = placement.devices
    if comm.size % devices:
        raise CaffeliteError(
            f"the net is divided over {devices} devices, and the processes are no multiple of them",
            expected=f"{devices} processes, or a multiple",
            found=comm.size,
            remedy=f"start it by mpirun -n {devices} caffelite train ..., or with -gpu and {devices} GPUs",
        )
    return MeshShape(comm.size // devices, placement.stages, placement.shards)
