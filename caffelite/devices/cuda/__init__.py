"""NVIDIA GPUs: CuPy for memory and kernels, cuBLAS for matrix products, cuDNN for convolutions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..interfaces import Peer
from ..protocol import Gather
from . import nccl
from .device import GPU
from .hardware import header_folder, peaks
from .links import NCCLLinks
from .nccl import NCCLAllReduce
from .presence import present

__all__ = [
    "GPU",
    "NCCLAllReduce",
    "NCCLLinks",
    "all_reduce",
    "count",
    "describe",
    "header_folder",
    "open_links",
    "peaks",
    "place",
    "present",
    "why_none",
]


def count() -> int:
    """How many GPUs can be used; 0 where there is none, or CuPy or a driver is missing (``why_none`` says which)."""
    return _look()[0]


def why_none() -> str:
    """The missing component where ``count`` is 0, else an empty string."""
    return _look()[1]


def _look() -> tuple[int, str]:
    from ...errors import CaffeliteError
    from .installation import cupy_module, device_count

    try:
        return device_count(cupy_module()), ""
    except CaffeliteError as mistake:
        return 0, str(mistake)


def describe(number: int) -> dict[str, str | int]:
    """What GPU ``number`` is, by the words that a device query prints. Errors: no CuPy, no driver, no such GPU."""
    from .hardware import describe

    return describe(number)


def place(dev: GPU) -> str:
    """The machine and the bus address of a device's GPU: equal for processes that share it."""
    return nccl.place(dev.number)


def open_links(dev: GPU, me: Peer, group: Sequence[Peer], gather: Gather, key: Hashable) -> NCCLLinks:
    """Links of a device to those with the other pieces of a net: see NCCLLinks."""
    dev.backend.here()  # NCCL's communicators belong to the current device
    return NCCLLinks(dev.backend.stream, me, group, gather, key, dev.drop_graphs)


def all_reduce(dev: GPU, rank: int, size: int, gather: Gather) -> NCCLAllReduce:
    """Sums a device's arrays over processes by NCCL: see NCCLAllReduce."""
    dev.backend.here()  # NCCL's communicator belongs to the current device
    return NCCLAllReduce(dev.backend.stream, dev.sums_stream, rank, size, gather, dev.drop_graphs)
