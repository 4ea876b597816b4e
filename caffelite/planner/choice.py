"""What a job asks for by `-split`: the arrangements of its devices that are possible, by their forecasts."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..net.compile import compile
from ..net.graph import Graph, Value
from ..net.partition.placement import Division, Placement
from ..net.partition.resolve import SplitRequest
from ..parallel.forecast import Link, Network
from .costs import RATES, Modelled
from .planner import Arrangement, Forecast, Job, Planner
from .sharding import Plans, Sharding, exchange, hybrid, moves


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


MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
EXHAUSTIVE = 8  # divisible layers of which all subsets are compared


def plan(planner: Planner, request: Request) -> list[Forecast]:
    """The forecasts of the arrangements of the job's devices that ``request`` allows and the memory holds: of each
    kind the best, the most samples a second first. Errors: the net or the devices allow no such arrangement."""
    check(planner, request)
    kinds: dict[tuple[int, str], list[tuple[Forecast, Arrangement]]] = {}
    for arrangement in arrangements(planner, request):
        if forecast := planner.forecast(arrangement):
            kinds.setdefault((arrangement.groups, arrangement.name), []).append((forecast, arrangement))
    best = []
    for alike in kinds.values():
        ordered = sorted(alike, key=lambda pair: -pair[0].images)
        best.append(next((f for forecast, a in ordered if (f := planner.fitting(a, forecast))), None))
    return sorted((f for f in best if f), key=lambda f: (-f.images, f.placement.devices, f.placement.stages, f.memory))


def choose(planner: Planner, request: Request) -> Forecast:
    """The best of ``plan``. Errors: also, that the memory holds none."""
    forecasts = plan(planner, request)
    if forecasts:
        return forecasts[0]
    unlimited = plan(planner.with_memory(None), request)
    if not unlimited:
        raise CaffeliteError(
            f"-split: no arrangement of {planner.job.devices} devices is possible",
            remedy="shards divide layers whose num_output is a multiple of their number; a stage needs a layer",
        )
    least = min(unlimited, key=lambda f: f.memory)
    raise CaffeliteError(
        "-split: no arrangement fits into the memory of a device",
        expected=f"at least {least.memory / 2**20:,.0f} MiB: {least.groups} x {least.name}, "
        f"{least.placement.micro_batches} micro-batches",
        found=f"{(planner.job.memory or 0) / 2**20:,.0f} MiB",
        remedy="use more devices or a smaller batch",
    )


def check(planner: Planner, request: Request) -> None:
    """Raises an error for a request that this net or this job never allows."""
    devices = planner.job.devices
    if request.devices and devices % request.devices:
        what = f"-split: {devices} processes cannot form groups of {request.devices}"
        raise CaffeliteError(what, remedy=f"use a number of processes that {request.devices} divides")
    if request.stages and request.stages >= len(planner.boundaries):
        what = f"-split: {request.stages} stages, but the net can be cut into {len(planner.boundaries) - 1} at most"
        raise CaffeliteError(what, remedy="use fewer stages")
    micro_batches = request.micro_batches or 1
    if micro_batches > 1:
        coupled = next((n for n in planner.graph.nodes if n.layer.couples_samples), None)
        if coupled is not None:
            what = f'-split: the batch cannot be divided into micro-batches: layer "{coupled.name}" '
            what += f"({coupled.layer.spec.type}) computes with all its samples"
            raise coupled.layer.locate.error(what, remedy="use iter_size for micro-batches")
        batch = planner.batch(devices // (request.devices or devices))
        if batch % micro_batches:
            what = f"-split: a batch of {batch} cannot be divided into {micro_batches} micro-batches"
            raise CaffeliteError(what, remedy="use a number of micro-batches that divides the batch")


def arrangements(planner: Planner, request: Request) -> Iterator[Arrangement]:
    """All arrangements that ``request`` allows."""
    for size in _divisors(planner.job.devices):
        groups = planner.job.devices // size
        if request.devices not in (None, size) or (planner.job.strong and planner.graph.batch_size % groups):
            continue
        for stages in _divisors(size) if request.hybrid is None else ():
            shards = size // stages
            if request.stages in (None, stages) and request.shards in (None, shards):
                yield from _pipelines(planner, request, groups, stages, shards)
        if size > 1 and request.hybrid in (None, size) and request.stages in (None, 1) and request.shards is None:
            sharding = hybrid(planner.divisions(size))
            if sharding and planner.batch(groups) % size == 0 and request.micro_batches in (None, 1):
                yield Arrangement(groups, 1, 1, sharding, "hybrid")


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _pipelines(planner: Planner, request: Request, groups: int, stages: int, shards: int) -> Iterator[Arrangement]:
    if stages >= len(planner.boundaries):
        return
    nouns = [f"{count} {noun}" for count, noun in ((stages, "stages"), (shards, "shards")) if count > 1]
    for sharding, micro_batches in itertools.product(
        _shardings(planner, shards), _micro_batches(planner, request, groups, stages)
    ):
        yield Arrangement(groups, stages, micro_batches, sharding, " x ".join(nouns) or "data parallel")


def _micro_batches(planner: Planner, request: Request, groups: int, stages: int) -> list[int]:
    """The numbers of micro-batches to compare: one where layers couple samples."""
    if request.micro_batches:
        return [request.micro_batches]
    if stages == 1 or planner.coupled:
        return [1]
    return [m for m in MICRO_BATCHES if planner.batch(groups) % m == 0 and m <= 8 * stages]


def _shardings(planner: Planner, shards: int) -> list[Sharding]:
    """The shardings to compare: the fastest, and under a memory limit also those that divide more layers, first the
    layers with the most parameters."""
    if shards == 1:
        return [Sharding()]
    fastest = fastest_sharding(planner, shards)
    rest = sorted(planner.divisions(shards).all_outputs() - fastest.outputs, key=lambda i: (-planner.parameters[i], i))
    counts = {0, len(rest), *(1 << k for k in range(len(rest).bit_length()))} if planner.job.memory else {0}
    if not fastest.outputs:
        counts = counts - {0} or {len(rest)}
    shardings = [Sharding(shards, fastest.outputs.union(rest[:count])) for count in sorted(counts)]
    return [sharding for sharding in shardings if sharding.outputs]


def fastest_sharding(planner: Planner, shards: int) -> Sharding:
    """The layers to divide by outputs for the shortest iteration of one stage without micro-batches.

    Compares all subsets of up to EXHAUSTIVE divisible layers. Of more layers it changes one after the other as long as
    the time decreases, from none and from all.
    """
    every = sorted(planner.divisions(shards).all_outputs())
    if len(every) <= EXHAUSTIVE:
        subsets = itertools.chain.from_iterable(itertools.combinations(every, n) for n in range(len(every) + 1))
        return min((Sharding(shards, frozenset(s)) for s in subsets), key=lambda s: stage_seconds(planner, s))
    starts: tuple[frozenset[int], ...] = (frozenset(), frozenset(every))
    shardings = [_Descent(planner, Sharding(shards, start)).run(every) for start in starts]
    return min(shardings, key=lambda s: stage_seconds(planner, s))


class _Descent:
    """Divides a layer or stops dividing it, one after the other, until no such change saves time. Computes only the
    costs that a change concerns."""

    def __init__(self, planner: Planner, sharding: Sharding):
        self.shards, self.nodes = sharding.shards, planner.graph.nodes
        self.plans = Plans(planner.divisions(sharding.shards), sharding)
        self.link = planner.job.network.between(0, sharding.shards - 1)
        one = np.ones(len(self.nodes))
        self._seconds = {}
        for divisor in (1, sharding.shards):
            times = planner.costs.times(1.0, one * divisor)
            update = planner.costs.update(1.0) * planner.parameters / 4 / divisor
            self._seconds[divisor] = (times.forward + times.backward + update).tolist()

    def run(self, every: list[int]) -> Sharding:
        unchanged, indices = 0, itertools.cycle(every)
        while unchanged < len(every):
            unchanged = 0 if self._change(next(indices)) else unchanged + 1
        division = self.plans.division
        return Sharding(self.shards, frozenset(i for i in every if division[i] is Division.OUTPUTS))

    def _change(self, index: int) -> bool:
        before = self.plans.division[index]
        after = Division.WHOLE if before is Division.OUTPUTS else Division.OUTPUTS
        touched = self.plans.set(index, after)
        new = self._cost(touched)
        self.plans.set(index, before)
        if new >= self._cost(touched) * (1 - 1e-9):
            return False
        self.plans.set(index, after)
        return True

    def _cost(self, layers: list[int]) -> float:
        """Seconds of some layers and of what is exchanged for the values that they read and make."""
        seconds = 0.0
        values: dict[Value, None] = {}  # in the order in which they are found
        for index in layers:
            node = self.nodes[index]
            seconds += self._seconds[1 if self.plans.of[index].message is None else self.shards][index]
            values |= dict.fromkeys((*node.bottoms, *node.tops))
        for _, move in moves(self.plans, iter(values)):
            for amount in (move.forward, move.backward):
                seconds += self.link.move(amount, self.shards - 1) if amount else 0.0
        return seconds


def stage_seconds(planner: Planner, sharding: Sharding) -> float:
    """Seconds of a batch and the update on one stage whose devices divide the layers."""
    exchanged = exchange(planner.divisions(sharding.shards), sharding)
    link = planner.job.network.between(0, sharding.shards - 1)
    times = planner.costs.times(1.0, exchanged.parts)
    update = planner.costs.update(float((planner.parameters / exchanged.parameter_parts).sum()) / 4)
    return (
        float((times.forward + times.backward).sum() + link.move(exchanged.sent.sum(), exchanged.messages.sum()))
        + update
    )


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
