"""NVIDIA GPUs: CuPy for memory and kernels, cuBLAS for matrix products, cuDNN for convolutions."""

import socket
from collections.abc import Hashable, Sequence

from ...errors import CaffeliteError
from ..links import Peer
from ..types import Gather
from . import installation
from .device import GPU
from .hardware import describe, header_folder, peaks
from .links import NCCLLinks
from .nccl import NCCLAllReduce, check_shared, log_version, sharing_permitted
from .presence import present

__all__ = [
    "GPU",
    "NCCLAllReduce",
    "NCCLLinks",
    "all_reduce",
    "check_shared",
    "count",
    "describe",
    "header_folder",
    "open_links",
    "peaks",
    "place",
    "present",
    "sharing_permitted",
    "why_none",
]


def count() -> int:
    """How many GPUs can be used; 0 where there is none, or CuPy or a driver is missing (``why_none`` says which)."""
    return _look()[0]


def why_none() -> str:
    """The missing component where ``count`` is 0, else an empty string."""
    return _look()[1]


def _look() -> tuple[int, str]:
    try:
        return installation.device_count(installation.cupy_module()), ""
    except CaffeliteError as mistake:
        return 0, str(mistake)


def place(dev: GPU) -> str:
    """The machine and the bus address of a device's GPU: equal for processes that share it."""
    address = installation.cupy_module().cuda.runtime.deviceGetPCIBusId(dev.number)
    return f"{socket.gethostname()} {address}"


def open_links(dev: GPU, me: Peer, group: Sequence[Peer], gather: Gather, key: Hashable) -> NCCLLinks:
    """Links of a device to those with the other pieces of a net: see NCCLLinks."""
    dev.backend.here()  # NCCL's communicators belong to the current device
    if me == group[0]:
        log_version()
    return NCCLLinks(dev.backend.stream, me, group, gather, key, dev.drop_graphs)


def all_reduce(dev: GPU, rank: int, size: int, gather: Gather) -> NCCLAllReduce:
    """Sums a device's arrays over processes by NCCL: see NCCLAllReduce."""
    dev.backend.here()  # NCCL's communicator belongs to the current device
    if rank == 0:
        log_version()
    return NCCLAllReduce(dev.backend.stream, dev.sums_stream, rank, size, gather, dev.drop_graphs)
