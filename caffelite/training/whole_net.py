"""The nets of a process that holds them complete, and what it would exchange if it held parts of them."""

import functools
from typing import Any

from .. import caffelite_pb2 as pb
from ..devices.protocol import Device
from ..devices.types import Array
from ..layers.base.division import SampleShares
from ..layers.hdf5_output import HDF5Output
from ..net.graph import Graph
from ..net.micro_batches import settles
from ..net.net import Net
from ..parallel import Mesh, agreed
from .pipeline import Pipeline
from .sample_sharing import share_batch


class WholeNet:
    """This process holds complete nets.

    mesh: the processes that train together. divisions: the micro-batches that a batch of the prototxt is divided into.
    divides_batch: whether the groups of processes divide it too (strong scaling).
    """

    divided = False
    description = ""  # of the arrangement, for the log
    counts = True  # whether losses, outputs and norms of this process count; another shard's are the same

    def __init__(self, mesh: Mesh, divisions: int = 1, divides_batch: bool = False):
        self.mesh, self.divisions = mesh, divisions
        self.sample_shares: SampleShares | None = None
        groups = mesh.shape.groups if divides_batch else 1
        if groups * divisions > 1:
            total = functools.partial(mesh.data.total, what="divisors of losses")
            self.sample_shares = SampleShares(groups * divisions, total, divisions)

    def begin_pass(self, micro_batch: int) -> None:
        """Called before each forward pass of an iteration."""
        if self.sample_shares and not micro_batch % self.divisions:
            self.sample_shares.batches += 1

    @property
    def shares(self) -> int:
        """The means that an iteration's gradient is the sum of, for each micro-batch of iter_size."""
        return self.mesh.shape.groups * self.divisions

    def open(self, graph: Graph, dev: Device, **options: Any) -> Net:
        """The part of a net that this process runs. options: of ``Net.of``."""
        self.name_files(graph)
        self.share_batch(graph)
        return Net.of(graph, dev, **options)

    def share_batch(self, graph: Graph) -> None:
        """Lets the layers of a TRAIN net know that processes or micro-batches divide its batch. Errors: a net that they
        cannot train as one pass would."""
        if self.sample_shares and graph.phase == pb.TRAIN:
            shares = self.sample_shares
            agreed(self.mesh.world, lambda: share_batch(graph, shares))

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
        return Pipeline(net, micro_batches, together=self.together(net))

    def together(self, net: Net) -> int:
        """The micro-batches that run forward before one of them runs backward; see ``pipeline.schedule``."""
        return self.divisions if any(map(settles, self.complete(net).nodes)) else 1

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
