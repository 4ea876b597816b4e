"""Predicts the iteration of a net under an arrangement of devices, from the costs of its possible stages, and chooses
where its stages begin."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from ..net.compile import CompiledNet, compile
from ..net.deferred import candidates, defers, kept_bytes, pays
from ..net.graph import Graph, Value
from ..net.packing import Storage
from ..net.partition.analysis import Analysis
from ..net.partition.partition import part
from ..net.partition.placement import DevicePosition, LayerPlacement, Placement
from ..parallel.forecast import Link, Measured, Network, forecast
from .costs import Costs, Deferred, owners
from .sharding import Divisions, Exchange, Sharding, exchange, parameter_bytes, size
from .stages import Cut, Segments, best_cut, evaluated, timeline, within


def boundaries(graph: Graph, compiled: CompiledNet) -> list[int]:
    """The places where the layers can be cut, as the index of the layer behind; also 0 and the number of layers. Layers
    that share a parameter stay together, and layers that run as one step where they are consecutive."""
    closed: set[int] = set()
    for parameter in range(len(graph.parameters)):
        readers = [n.index for n in graph.nodes if any(ref.owner == parameter for ref in n.params)]
        if readers:
            closed.update(range(min(readers) + 1, max(readers) + 1))
    original = {new: old.index for old, new in compiled.nodes.items()}
    for step in compiled.forward:
        run = [original[n] for n in (step.node, *step.fused) if n in original]
        if run == list(range(run[0], run[0] + len(run))) if run else False:
            closed.update(range(run[0] + 1, run[-1] + 1))
    count = len(graph.nodes)
    return [b for b in range(count + 1) if b not in closed]


def sums(values: np.ndarray, boundaries: Sequence[int]) -> np.ndarray:
    """(B, B): the sum of ``values`` (N,) of the layers from boundary i up to boundary j."""
    total = np.concatenate([[0.0], np.cumsum(values)])[list(boundaries)]
    return total[None, :] - total[:, None]


@dataclass(frozen=True, eq=False)
class BoundaryTraffic:
    """By stage (B, B), for a complete batch: bytes that it receives from earlier stages and sends to later ones,
    forward; ``..._back``: those values' gradients; the number of values; and bytes of memory for all of them."""

    received: np.ndarray
    sent: np.ndarray
    received_back: np.ndarray
    sent_back: np.ndarray
    values_received: np.ndarray
    values_sent: np.ndarray
    buffers: np.ndarray


def boundary_traffic(
    graph: Graph, boundaries: Sequence[int], divisors: Mapping[Value, float], copied: Collection[Value] = ()
) -> BoundaryTraffic:
    """The values that cross the ends of each possible stage. A value that several later stages read counts once where
    it is sent, and on each stage that reads it. divisors: over how many devices a value is divided. copied: the values
    that are stored in another layout than links have."""
    count = len(boundaries)
    traffic = BoundaryTraffic(*(np.zeros((count, count)) for _ in range(7)))
    after = np.searchsorted(boundaries, np.arange(len(graph.nodes)), side="right")  # the first boundary behind a layer
    for node in graph.nodes:
        for value in node.tops:
            readers = sorted({r.index for r, _ in value.readers})
            if not readers:
                continue
            amount = size(value) / divisors.get(value, 1)
            back = amount * value.gradient
            held = (amount + back) * (2 if value in copied else 1)
            low, high = after[node.index], after[readers[-1]]
            for into, of in (
                (traffic.sent, amount),
                (traffic.sent_back, back),
                (traffic.values_sent, 1 + value.gradient),
                (traffic.buffers, held),
            ):
                into[:low, low:high] += of
            begin = low
            for reader in readers:
                end = after[reader]
                for into, of in (
                    (traffic.received, amount),
                    (traffic.received_back, back),
                    (traffic.values_received, 1 + value.gradient),
                    (traffic.buffers, held),
                ):
                    into[begin:end, end:] += of
                begin = max(begin, end)
    return traffic


def activations(
    graph: Graph, compiled: CompiledNet, boundaries: Sequence[int], divisors: Mapping[Value, float]
) -> np.ndarray:
    """(B, B): about how many bytes of blobs, gradients and saved arrays a stage holds at most at once."""
    of = owners(graph, compiled)
    order = np.array([of[n] for n in compiled.graph.nodes])
    starts = np.searchsorted(order, boundaries, side="left")  # by boundary: the first step behind it
    length, count = len(order), len(boundaries)
    held = _storages(compiled, divisors)
    first = np.array([min(s.first, 2 * length - 1) for s, _ in held], int)
    last = np.array([min(s.last, 2 * length - 1) for s, _ in held], int)
    amounts = np.array([amount for _, amount in held])
    held_bytes = np.zeros((count, count))
    for i, begin in enumerate(starts[:-1]):
        end = 2 * length - begin
        inside = (first >= begin) & (first < end)
        change = np.zeros(2 * length + 1)
        np.add.at(change, first[inside], amounts[inside])
        np.add.at(change, np.minimum(last[inside], end - 1) + 1, -amounts[inside])
        used = np.cumsum(change)
        forward = np.maximum.accumulate(used[begin:length])
        backward = np.maximum.accumulate(used[length:end][::-1])
        for j in range(i + 1, count):
            steps = starts[j] - begin
            if steps:
                held_bytes[i, j] = max(forward[steps - 1], backward[steps - 1])
    return held_bytes


def _storages(compiled: CompiledNet, divisors: Mapping[Value, float]) -> list[tuple[Storage, float]]:
    """The storages of the arena, each with its bytes on one device."""
    shares: dict[Value, float] = {new: divisors.get(old, 1) for old, new in compiled.values.items()}
    for node in compiled.graph.nodes:
        for top in node.tops:
            if top not in shares:
                shares[top] = shares.get(node.bottoms[0], 1) if node.bottoms else 1
    amounts: dict[Storage, float] = {}

    def hold(storage: Storage, share: float) -> None:
        if not storage.constant:
            amounts[storage] = max(amounts.get(storage, 0.0), storage.bytes / share)

    for table in (compiled.data, compiled.diff):
        for value, storage in table.items():
            hold(storage, shares[value])
    for node, saved in compiled.saved.items():
        for storage in saved.values():
            hold(storage, shares[node.tops[0]] if node.tops else 1)
    for step in compiled.backward:
        for i, storage in step.partial.items():
            hold(storage, shares[step.bottoms[i][0]])
    return list(amounts.items())


SLOWER = 1.02
NEAR = 2  # places by which a boundary is moved at once
ATTEMPTS = 4  # to find a cut that fits into the memory
BUCKETS = 6  # of gradients, as reduce_buckets has by default


@dataclass(frozen=True)
class Job:
    """The devices of a job and its options.

    memory: bytes of a device, None: no limit. strong: the groups share the batch. overlap: links move gradients while
    devices compute. slower: how many times longer a device computes where processes share cores. iter_size: batches of
    an iteration. histories: numbers that the solver keeps for each parameter.
    """

    devices: int
    network: Network
    memory: float | None = None
    strong: bool = False
    overlap: bool = True
    slower: float = 1.0
    iter_size: int = 1
    histories: int = 1


@dataclass(frozen=True)
class StageForecast:
    """One stage: its layers by index (first, behind the last), seconds forward and backward for one micro-batch with
    what it sends and receives, seconds of the weight gradients that are computed once after them, bytes of memory of
    each of its devices, bytes that a device sends in an iteration to other stages, to those of its stage, and to other
    groups."""

    layers: tuple[int, int]
    forward: float
    backward: float
    gradients: float
    memory: float
    to_stages: float
    to_shards: float
    to_groups: float

    @property
    def sent(self) -> float:
        return self.to_stages + self.to_shards + self.to_groups


@dataclass(frozen=True)
class Forecast:
    """An arrangement and its iteration. batch: samples of a group in an iteration; waiting: seconds for
    gradients of other groups; bubble: the share of the pipeline's time in which devices wait for other stages."""

    groups: int
    placement: Placement
    name: str
    batch: int
    seconds: float
    waiting: float
    bubble: float
    stages: tuple[StageForecast, ...]

    @property
    def images(self) -> float:
        """A second."""
        return self.groups * self.batch / self.seconds

    @property
    def memory(self) -> float:
        """Of the device that needs most."""
        return max(stage.memory for stage in self.stages)

    @property
    def sent(self) -> float:
        """Bytes that a device sends in an iteration, of the device that sends most."""
        return max(stage.sent for stage in self.stages)


@dataclass(frozen=True)
class Arrangement:
    """Groups of stages of shards, and how a group divides its batch and its layers."""

    groups: int
    stages: int
    micro_batches: int
    sharding: Sharding
    name: str = ""


class Planner:
    """Forecasts for one net and one kind of device. graph: for the complete batch."""

    def __init__(self, graph: Graph, compiled: CompiledNet, costs: Costs, job: Job):
        self.graph, self.compiled, self.costs, self.job = graph, compiled, costs, job
        self.boundaries = boundaries(graph, compiled)
        self.parameters = parameter_bytes(graph)
        self.coupled = any(node.layer.couples_samples for node in graph.nodes)
        self.divisions = cache(lambda shards: Divisions(graph, shards))
        self._details = cache(lambda sharding: _Details(self, sharding))

    def batch(self, groups: int) -> int:
        """Samples of a group in a pass of all micro-batches."""
        return self.graph.batch_size // groups if self.job.strong else self.graph.batch_size

    def forecast(self, arrangement: Arrangement, limit: float | None = None) -> Forecast | None:
        """The forecast of an arrangement with its best cut; None where it does not fit into the memory, by an estimate.
        limit: bytes instead of the job's."""
        run = _Run(self, arrangement)
        cut = self._cut(run, limit or self.job.memory)
        return run.forecast(cut.boundaries) if cut else None

    def fitting(self, arrangement: Arrangement, forecast: Forecast | None) -> Forecast | None:
        """``forecast``, the forecast of an arrangement, with the memory of the compiled parts; where that is more than
        a device has, of another cut, or None."""
        allowed = limit = np.inf if self.job.memory is None else self.job.memory
        forecast = forecast and self._improved(arrangement, forecast)
        for _ in range(ATTEMPTS):
            if forecast is None or (exact := self.compiled_memory(forecast)).memory <= allowed:
                return forecast and exact
            limit *= 0.99 * allowed / exact.memory
            forecast = self.forecast(arrangement, limit)
        return None

    def _improved(self, arrangement: Arrangement, forecast: Forecast) -> Forecast:
        """A forecast with the boundaries of its stages moved as long as that shortens the iteration. ``best_cut``
        minimizes a bound of it, where stages take different times."""
        run = _Run(self, arrangement)
        seconds = within(run.segments, run.passes, self.job.memory)
        cut = tuple(self.boundaries.index(stage.layers[0]) for stage in forecast.stages) + (len(self.boundaries) - 1,)
        while run.passes > 1:
            near = [
                (*cut[:i], boundary, *cut[i + 1 :])
                for i in range(1, len(cut) - 1)
                for boundary in range(max(cut[i - 1] + 1, cut[i] - NEAR), min(cut[i + 1], cut[i] + NEAR + 1))
            ]
            allowed = [other for other in near if np.isfinite(evaluated(seconds, other, run.passes).seconds)]
            each = {other: run.forecast(other) for other in allowed if other != cut}
            cut = min(each, key=lambda other: each[other].seconds, default=cut)
            if cut not in each or each[cut].seconds >= forecast.seconds * (1 - 1e-9):
                break
            forecast = each[cut]
        return forecast

    def compiled_memory(self, forecast: Forecast) -> Forecast:
        """A forecast with the memory of its devices as their compiled parts have it."""
        placement, stages = forecast.placement, []
        share = 1 / (placement.micro_batches * (forecast.groups if self.job.strong else 1))
        analysis = Analysis(self.graph, placement)
        for number, stage in enumerate(forecast.stages):
            own = compile(part(analysis, DevicePosition(number)), self.compiled.traits)
            parameters = sum(4 * math.prod(p.blob.shape) for p in own.graph.parameters)
            flights = min(placement.stages - number, placement.micro_batches * self.job.iter_size)
            blobs = flights * share * (own.arena + own.constant_bytes)
            if defers(placement.stages, passes := placement.micro_batches * self.job.iter_size):
                blobs += share * passes * kept_bytes(own.graph, 1)
            stages.append(replace(stage, memory=(2 + self.job.histories) * parameters + blobs))
        return replace(forecast, stages=tuple(stages))

    def _cut(self, run: _Run, limit: float | None) -> Cut | None:
        """The fastest cut; where no two devices ever compute at once, of the cuts that take up to SLOWER times as long
        the one with the least memory."""
        best = best_cut(run.segments, run.passes, limit)
        if best is None or run.passes > 1 or run.stages == 1:
            return best
        fixed, flight = run.segments.fixed, run.segments.per_flight
        sizes = np.unique((fixed + flight)[np.triu_indices(len(fixed), 1)])
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            cut = best_cut(run.segments, 1, min(sizes[middle], limit or np.inf))
            if cut is not None and cut.seconds <= SLOWER * best.seconds:
                high = middle
            else:
                low = middle + 1
        return best_cut(run.segments, 1, min(sizes[low], limit or np.inf)) or best

    def with_memory(self, memory: float | None) -> Planner:
        """This planner for another memory limit."""
        return Planner(self.graph, self.compiled, self.costs, replace(self.job, memory=memory))

    def details(self, sharding: Sharding) -> _Details:
        return self._details(sharding)


class _Details:
    """What follows from a sharding alone."""

    def __init__(self, planner: Planner, sharding: Sharding):
        self.planner, graph = planner, planner.graph
        self.exchange: Exchange = exchange(planner.divisions(sharding.shards), sharding)
        divided = dict.fromkeys(self.exchange.divided, sharding.shards)
        copies = {old for old, new in planner.compiled.values.items() if new.channels_last}
        self.traffic: BoundaryTraffic = boundary_traffic(graph, planner.boundaries, divided, copies)
        shares = {v: k if v not in self.exchange.gathered else k / (1 + k) for v, k in divided.items()}
        self.activations = activations(graph, planner.compiled, planner.boundaries, shares)
        self.parameters = planner.parameters / self.exchange.parameter_parts


class _Run:
    """An arrangement with the costs of its possible stages."""

    def __init__(self, planner: Planner, arrangement: Arrangement):
        self.planner, self.arrangement, job = planner, arrangement, planner.job
        self.details = planner.details(arrangement.sharding)
        self.stages, self.shards = arrangement.stages, arrangement.sharding.shards
        self.passes = arrangement.micro_batches * job.iter_size
        # of the net's batch, in a micro-batch
        self.share = 1 / (arrangement.micro_batches * (arrangement.groups if job.strong else 1))
        deferred, self.row_bytes = (
            self._deferred() if defers(self.stages, self.passes) else (None, np.zeros_like(planner.parameters))
        )
        times = planner.costs.times(self.share, self.details.exchange.parts, deferred)
        self.forward, self.backward = times.forward * job.slower, times.backward * job.slower
        self.gradients = times.gradients * job.slower

    def _deferred(self) -> tuple[Deferred, np.ndarray]:
        """The layers with weight gradients that are computed once, and the bytes of the rows that each keeps."""
        share, divisors = self.share * self.passes, self.details.exchange.parts
        layers, row_bytes = np.zeros(len(divisors), bool), np.zeros(len(divisors))
        for node, rows, inputs, outputs in candidates(self.planner.graph):
            amount, own = share * rows, outputs / divisors[node.index]
            if pays(amount, inputs, own):
                layers[node.index], row_bytes[node.index] = True, 4 * amount * (inputs + own)
        return Deferred(layers, share), row_bytes

    def links(self, stage: int) -> tuple[Link, Link, Link]:
        """Of a stage to the one before, to the next, and within."""
        network, first = self.planner.job.network, stage * self.shards
        last = first + self.shards - 1
        before = network.between(first - self.shards, first) if stage else network.near
        after = network.between(first, first + self.shards)
        return before, after, network.between(first, last)

    def transfer(self, stage: int) -> tuple[np.ndarray, np.ndarray]:
        """(B, B) seconds of a micro-batch's transfers to and from other stages, forward and backward."""
        cross, (before, after, _) = self.details.traffic, self.links(stage)
        share = self.share
        forward = before.latency * (cross.values_received > 0) + after.latency * (cross.values_sent > 0)
        backward = before.latency * (cross.received_back > 0) + after.latency * (cross.sent_back > 0)
        return (
            forward + share * (cross.received / before.bandwidth + cross.sent / after.bandwidth),
            backward + share * (cross.received_back / before.bandwidth + cross.sent_back / after.bandwidth),
        )

    def layers(self, stage: int) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of each layer of a micro-batch with what its shards exchange, forward and backward."""
        link, exchanged = self.links(stage)[2], self.details.exchange
        seconds = self.share * exchanged.sent / link.bandwidth + exchanged.messages * link.latency
        return self.forward + seconds[0], self.backward + seconds[1]

    @cached_property
    def segments(self) -> Segments:
        boundaries, details, job = self.planner.boundaries, self.details, self.planner.job
        seconds = []
        update = self.planner.costs.update(1.0) * details.parameters / 4 * job.slower
        for stage in range(self.stages):
            forward, backward = self.layers(stage)
            layers = forward + backward + (self.gradients + update) / self.passes
            seconds.append(sums(layers, boundaries) + sum(self.transfer(stage)))
        fixed = (2 + job.histories) * sums(details.parameters, boundaries) + sums(self.row_bytes, boundaries)
        return Segments(np.stack(seconds), fixed, self.share * (details.activations + details.traffic.buffers))

    def forecast(self, cut: tuple[int, ...]) -> Forecast:
        ends = list(zip(cut, cut[1:], strict=False))
        each = [self._stage(stage, *ends[stage]) for stage in range(self.stages)]
        line = timeline([s.forward for s in each], [s.backward for s in each], self.passes, [s.gradients for s in each])
        finished, waiting = [], []
        for stage, (end, last) in enumerate(zip(line.ends, line.last_backwards, strict=True)):
            waits = self._gradients(stage, *ends[stage], end - last)
            boundaries = [self.planner.boundaries[i] for i in ends[stage]]
            update = self.planner.costs.update(self.details.parameters[slice(*boundaries)].sum() / 4)
            finished.append(end + waits + update * self.planner.job.slower)
            waiting.append(waits)
        slowest = int(np.argmax(finished))
        groups = self.arrangement.groups
        batch = self.planner.batch(groups) * self.planner.job.iter_size
        return Forecast(
            groups,
            self._placement(ends),
            self.arrangement.name,
            batch,
            float(finished[slowest]),
            float(waiting[slowest]),
            line.bubble,
            tuple(each),
        )

    def _placement(self, ends: list[tuple[int, int]]) -> Placement:
        boundaries, sharding = self.planner.boundaries, self.arrangement.sharding
        layers = {}
        for stage, (i, j) in enumerate(ends):
            for node in self.planner.graph.nodes[boundaries[i] : boundaries[j]]:
                layers[node.name] = LayerPlacement(stage, sharding.division(node.index))
        return Placement(self.stages, self.shards, self.arrangement.micro_batches, layers)

    def _stage(self, stage: int, i: int, j: int) -> StageForecast:
        boundaries, segments, cross = self.planner.boundaries, self.segments, self.details.traffic
        layers = slice(boundaries[i], boundaries[j])
        forward, backward = (
            float(own[layers].sum() + moved[i, j])
            for own, moved in zip(self.layers(stage), self.transfer(stage), strict=True)
        )
        flights = min(self.stages - stage, self.passes)
        samples = self.share * self.passes
        shards, groups = self.shards, self.arrangement.groups
        summed = self.details.exchange.summed[layers].sum() * 2 * (shards - 1) / shards
        return StageForecast(
            (boundaries[i], boundaries[j]),
            forward,
            backward,
            float(self.gradients[layers].sum()),
            float(segments.fixed[i, j] + flights * segments.per_flight[i, j]),
            float(samples * (cross.sent[i, j] + cross.received_back[i, j])),
            float(samples * self.details.exchange.sent[:, layers].sum() + summed),
            float(self.details.parameters[layers].sum() * 2 * (groups - 1) / groups),
        )

    def _gradients(self, stage: int, i: int, j: int, backward: float) -> float:
        """Seconds that a stage waits for the sums of gradients after its last backward pass."""
        boundaries, job, groups = self.planner.boundaries, self.planner.job, self.arrangement.groups
        layers, network = range(boundaries[i], boundaries[j]), job.network
        first = stage * self.shards
        link = network.between(first, first + (groups - 1) * self.stages * self.shards)
        waiting = 0.0
        batch = self.details.exchange.summed > 0
        for ranks, of, through in (
            (groups, ~batch, link),
            (groups * self.shards, batch, link if groups > 1 else self.links(stage)[2]),
        ):
            sizes = [float(self.details.parameters[n]) if of[n] else 0.0 for n in reversed(layers)]
            seconds = [float(self.backward[n]) for n in reversed(layers)]
            total = sum(seconds) or 1.0
            measured = Measured(0.0, [s * backward / total for s in seconds], 0.0, _buckets(sizes), 1)
            waiting += forecast(measured, ranks, through, overlap=job.overlap).waiting if ranks > 1 else 0.0
        return waiting


def _buckets(sizes: list[float]) -> list[tuple[int, int]]:
    """(step, bytes) of about BUCKETS buckets of gradients, by the bytes that each backward step completes."""
    buckets, held, whole = [], 0.0, sum(sizes)
    for step, amount in enumerate(sizes):
        held += amount
        if held and (held >= whole / BUCKETS or step == len(sizes) - 1):
            buckets.append((step, int(held)))
            held = 0.0
    if held:
        buckets.append((len(sizes) - 1, int(held)))
    return buckets
