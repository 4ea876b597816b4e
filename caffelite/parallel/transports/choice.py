"""Chooses how the arrays of a device move between processes: MPI, NCCL, or the host's memory."""

import logging
from typing import Any

from ...devices.links import Links
from ...devices.protocol import Device
from ..control import Control
from ..mesh import MeshShape
from ..reducer import Transport
from ..refusal import Refused
from .half import HalfPrecisionAllReduce
from .host import HostAllReduce, StagedAllReduce
from .links import MPILinks, StagedLinks, Waiting
from .mpi import Communicator, MPIAllReduce

log = logging.getLogger("caffelite")


def all_reduce(control: Control, dev: Device, half: bool) -> Transport:
    """The transport that sums arrays of ``dev`` over the processes of ``control``. half: in 16 bits,
    where they pass through the host."""
    host: Transport
    if not isinstance(control, Communicator):
        host = HostAllReduce(control)
    elif half:
        host = HalfPrecisionAllReduce(MPIAllReduce(control), control.comm, control.mpi)
    else:
        host = MPIAllReduce(control)
    if dev.traits.host_memory:
        return host
    from ...devices import cuda

    if _share_gpu(control, dev):
        return StagedAllReduce(dev, host)
    if half and not control.rank:
        log.warning("-compress fp16 has no effect between GPUs: NCCL sums gradients as float32")
    gpu: Any = dev  # memory of its own: a GPU
    return cuda.all_reduce(gpu, control.rank, control.size, control.gather)


def links(world: Control, model: Control, stage: Control, shape: MeshShape, dev: Device, waiting: Waiting) -> Links:
    """The links of ``dev`` to the devices of its group. model, stage: the processes of the group and of the stage.
    waiting(rank): a context in which this process waits for another. All processes of ``world`` call it together."""
    if not dev.traits.host_memory and not _share_gpu(world, dev):
        from ...devices import cuda

        assert isinstance(dev, cuda.GPU)
        at = shape.position(world.rank)
        group = [(stage, shard) for stage in range(shape.stages) for shard in range(shape.shards)]
        return cuda.open_links(dev, (at.stage, at.shard), group, world.gather, at.group)
    if not isinstance(world, Communicator):
        remedy = "start the processes with mpirun, or give each a GPU of its own"
        raise Refused("processes that share a GPU move the parts of a net over MPI only", remedy=remedy)
    assert isinstance(model, Communicator) and isinstance(stage, Communicator)
    host = MPILinks(model, stage, shape, shape.position(world.rank), shape.model(world.rank), waiting)
    if dev.traits.host_memory:
        return host
    return StagedLinks(dev, host)


def _share_gpu(control: Control, dev: Device) -> bool:
    """Whether processes have the same GPU and NCCL does not permit it."""
    from ...devices import cuda

    assert isinstance(dev, cuda.GPU)
    gathered = control.gather((cuda.place(dev), cuda.sharing_permitted()))
    places = [place for place, _ in gathered]
    return len(set(places)) < len(places) and not all(permitted for _, permitted in gathered)
