"""The part of a net that this process holds, and what it exchanges with the processes that hold the other parts."""

import functools
import logging
import weakref
from typing import Any

from .. import data
from ..devices.protocol import Device
from ..devices.types import Array
from ..errors import CaffeliteError
from ..layers.base.feeding import feeding
from ..layers.data import Feed
from ..net import graph as graphs
from ..net.graph import Graph
from ..net.net import Net
from ..net.partition import resolve
from ..net.partition.analysis import Analysis, ParameterPlace
from ..net.partition.partition import part
from ..net.partition.placement import DevicePosition, Placement
from ..net.partition.resolve import extend
from ..parallel import Mesh, MeshShape, SingleProcess, agreed
from . import nets
from .pipeline import Pipeline
from .whole_net import WholeNet

log = logging.getLogger("caffelite")


class PartitionedNet(WholeNet):
    """This process holds a part of each net, as ``placement`` says. All processes call ``gather`` and ``add_up``
    together."""

    divided = True

    def __init__(self, mesh: Mesh, placement: Placement, divides_batch: bool = False):
        super().__init__(mesh, placement.micro_batches, divides_batch)
        self.placement = placement
        shape = mesh.shape
        counts = ((shape.groups, "group"), (shape.stages, "stage"), (shape.shards, "shard"))
        self.description = ", " + " x ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counts)
        if self.divisions > 1:
            self.description += f", {self.divisions} micro-batches"
        self.counts = mesh.position.shard == 0
        self._position = DevicePosition(mesh.position.stage, mesh.position.shard)
        self._analyses: weakref.WeakKeyDictionary[Net, Analysis] = weakref.WeakKeyDictionary()

    def open(self, graph: Graph, dev: Device, **options: Any) -> Net:
        self.name_files(graph)
        self.share_batch(graph)
        whole = Analysis(graph, extend(self.placement, graph))
        mine = part(whole, self._position)
        for node in mine.nodes:
            if isinstance(node.layer, Feed):
                node.layer.divide_source()
        used = {id(source) for _, source in mine.sources}
        for node, source in graph.sources:
            if id(source) not in used:
                source.close()
                feeding(node.layer).source = None
        assert self.mesh.links
        self.mesh.links.connect(whole.links())
        net = Net.of(mine, dev, links=self.mesh.links, **options)
        self._analyses[net] = whole
        return net

    def complete(self, net: Net) -> Graph:
        return self._analyses[net].graph

    def places(self, net: Net) -> tuple[ParameterPlace, ...]:
        """Where each parameter of a complete net is."""
        return self._analyses[net].parameters

    def _mine(self, net: Net) -> list[ParameterPlace]:
        """The places of the parameters that this process has, in their order."""
        return [place for place in self.places(net) if place.stage == self._position.stage]

    def summed_over_stage(self, net: Net) -> list[bool]:
        return [place.sums_gradients for place in self._mine(net)]

    def divided_parameters(self, net: Net) -> list[bool]:
        return [place.axis is not None for place in self._mine(net)]

    def pipeline(self, net: Net, micro_batches: int) -> Pipeline:
        return Pipeline(net, micro_batches, self.mesh.position.stage, self.placement.stages, self.together(net))

    def gather(self, value: Any, what: str = "scores") -> list[Any]:
        return self.mesh.model.gather(value, what)[:: self.placement.shards]

    def gather_shards(self, value: Any) -> list[list[Any]]:
        pieces, shards = self.mesh.model.gather(value, "scores"), self.placement.shards
        return [pieces[i : i + shards] for i in range(0, len(pieces), shards)]

    def add_up(self, number: Array, dev: Device) -> None:
        if self.captures:
            assert self.mesh.links
            return self.mesh.links.all_reduce_group(number)
        total = self.mesh.model.total(dev.download(number).astype(float), "gradients")
        dev.upload(number, total.astype(dev.dtype))

    def add_up_stage(self, numbers: Array) -> None:
        assert self.mesh.links
        self.mesh.links.all_reduce(numbers)

    def progress(self) -> None:
        if self.mesh.links:
            self.mesh.links.progress()

    def finish_sends(self) -> None:
        if self.mesh.links:
            self.mesh.links.finish()

    @property
    def captures(self) -> bool:
        return self.mesh.links is not None and self.mesh.links.captures


def divide(split: str, train: nets.NetSpec, comm: SingleProcess, dev: Device, strong_scaling: bool) -> WholeNet:
    """As ``build.arrange``, of a net that is divided where a copy of it takes several devices."""
    placement, shape = agreed(comm, lambda: _placed(split, train, comm))
    if strong_scaling:
        nets.divide(train, shape.groups)
    if placement.micro_batches > 1:
        nets.divide(train, placement.micro_batches, "micro-batches", "choose another number of micro_batches")
    if placement.devices == 1:
        log.info("A device holds the complete net: -split divides nothing")
        return WholeNet(comm.mesh(None, dev), placement.micro_batches, strong_scaling)
    return PartitionedNet(comm.mesh(shape, dev), placement, strong_scaling)


def _placed(split: str, train: nets.NetSpec, comm: SingleProcess) -> tuple[Placement, MeshShape]:
    """The placement of the layers of a train net, and the arrangement of the processes."""
    wiring = graphs.build(train.message, train.state, train.locate, functools.partial(data.open_source, seed=0))
    wiring.close()
    placement = resolve.resolve(wiring, resolve.parse_split(split) if split else None)
    assert placement, "there is a request, or there are messages"
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
