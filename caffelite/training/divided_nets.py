"""The part of a net that this process holds, and what it exchanges with the processes that hold the other parts."""

from __future__ import annotations

import weakref
from typing import Any

from ..devices.protocol import Device
from ..devices.types import Array
from ..layers.data import Feed
from ..layers.feeding import feeding
from ..layers.hdf5_output import HDF5Output
from ..net.graph import Graph
from ..net.net import Net
from ..net.partition.analysis import Analysis, ParameterPlace
from ..net.partition.partition import part
from ..net.partition.placement import DevicePosition, Placement
from ..net.partition.resolve import extend
from ..parallel import Mesh
from .pipeline import Pipeline


class CompleteNets:
    """This process holds complete nets.

    mesh: the processes that train together. divisions: the micro-batches that a batch of the prototxt is divided into.
    """

    divided = False
    description = ""  # of the arrangement, for the log
    counts = True  # whether losses, outputs and norms of this process count; another shard's are the same

    def __init__(self, mesh: Mesh, divisions: int = 1):
        self.mesh, self.divisions = mesh, divisions

    @property
    def shares(self) -> int:
        """The means that an iteration's gradient is the sum of, for each micro-batch of iter_size."""
        return self.mesh.shape.groups * self.divisions

    def open(self, graph: Graph, dev: Device, **options: Any) -> Net:
        """The part of a net that this process runs. options: of ``Net.of``."""
        self.name_files(graph)
        return Net.of(graph, dev, **options)

    def name_files(self, graph: Graph) -> None:
        """Gives each group of processes files of its own."""
        for node in graph.nodes:
            if isinstance(node.layer, HDF5Output):
                node.layer.set_rank(self.mesh.data.rank, self.mesh.data.size)

    def complete(self, net: Net) -> Graph:
        """The graph of the complete net that ``net`` is a part of."""
        return net.graph

    def learns(self, net: Net) -> bool:
        """Whether a complete net has a loss with a learned parameter below it."""
        return any(node.backward for node in self.complete(net).nodes)

    def pipeline(self, net: Net, micro_batches: int) -> Pipeline:
        """The passes of an iteration, and the nets that run them."""
        return Pipeline(net, micro_batches)

    def gather(self, value: Any, what: str = "scores") -> list[Any]:
        """The values of the stages of a group, in order: those of the first shards."""
        return [value]

    def gather_shards(self, value: Any) -> list[list[Any]]:
        """The values of all devices of a group, by stage and shard."""
        return [[value]]

    def add_up(self, number: Array, dev: Device) -> None:
        """Makes a number of the device (1) the sum over all parts."""

    def add_up_stage(self, numbers: Array) -> None:
        """Makes an array the sum over the shards of this process's stage."""

    def summed_over_stage(self, net: Net) -> list[bool]:
        """For each parameter of this process whether its gradient is also to be summed over the shards of its stage."""
        return [False] * len(net.params.parameters)

    def divided_parameters(self, net: Net) -> list[bool]:
        """For each parameter of this process whether the shards of its stage have a part each."""
        return [False] * len(net.params.parameters)

    def progress(self) -> None:
        """Lets the arrays that were sent move."""

    def finish_sends(self) -> None:
        """Waits for the arrays that are being sent, in the order of the device's operations."""

    @property
    def captures(self) -> bool:
        """Whether a captured graph may contain what the parts exchange."""
        return True


class DividedNets(CompleteNets):
    """This process holds a part of each net, as ``placement`` says. All processes call ``gather`` and ``add_up``
    together."""

    divided = True

    def __init__(self, mesh: Mesh, placement: Placement):
        super().__init__(mesh, placement.micro_batches)
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
        return Pipeline(net, micro_batches, self.mesh.position.stage, self.placement.stages)

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
