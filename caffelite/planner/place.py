"""The placement of a net's layers that a job asks for by `-split`."""

from __future__ import annotations

from collections.abc import Mapping

from ..devices.traits import DeviceTraits
from ..net.compile import compile
from ..net.graph import Graph
from ..net.partition.placement import Placement
from ..net.partition.resolve import SplitRequest
from ..parallel.forecast import Link, Network
from .choice import choose
from .costs import RATES, Modelled
from .planner import Job, Planner
from .request import of_split

MACHINE = 8  # GPUs of a machine
# Rough values, not measured: GB/s of a process's link within a machine and to others, seconds a message
LINKS: Mapping[str, Network] = {
    "gpu": Network(Link(200e9, 5e-6), Link(12.5e9, 5e-6), MACHINE),
    "cpu": Network(Link(4e9, 5e-6), Link(1.25e9, 5e-6), 1 << 10),
}


def place(
    graph: Graph,
    split: SplitRequest,
    devices: int,
    traits: DeviceTraits,
    *,
    memory: float | None = None,
    network: Network | None = None,
    strong: bool = False,
    iter_size: int = 1,
    histories: int = 1,
) -> Placement:
    """The placement for ``devices`` processes: the best that ``split`` allows, by modelled times of the layers. It
    depends on the arguments alone, so that all processes find the same.

    graph: of the complete batch. split: what -split says. memory: bytes of a device; None: no limit. network:
    the links between the processes; None: typical ones. strong: groups share the batch. histories: numbers that the
    solver keeps for each parameter. Errors: a split that the net, the processes or the memory do not allow.
    """
    compiled = compile(graph, traits)
    gpu = traits.kind == "gpu"
    costs = Modelled(graph, compiled, RATES["h100" if gpu else "cpu"])
    job = Job(
        devices,
        network or LINKS[traits.kind],
        memory,
        strong=strong,
        overlap=gpu,
        iter_size=iter_size,
        histories=histories,
    )
    return choose(Planner(graph, compiled, costs, job), of_split(split)).placement
