"""The layers of a net with totals, and the memory of a run."""

import dataclasses
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from .. import caffelite_pb2 as pb
from ..devices import algorithms
from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..layers import Shape
from ..layers.base import sliding
from ..layers.base.feeding import feeding
from ..layers.convolution import Convolution, Kernels
from ..net.compile import CompiledNet, Options, compile
from ..net.fused_updates import fused_updates, gradient_bytes
from ..net.graph import LARGEST, Graph, Node, Parameter
from ..training.optim import updates
from . import counts
from .nets import InspectedNet
from .target import CPU

BYTES = 4  # of a number
LINEAR = algorithms.FEW_ROWS + 1  # from this batch on no inner product has few rows
KERNELS = 24 << 20  # compiled kernels and the libraries that they call, once they are loaded: measured
CONVOLUTION = 400 << 10  # code that oneDNN makes for the passes of one more convolution: measured, a mean
WINOGRAD = 5 << 20  # kernels of Winograd's algorithms, where a convolution of a net may take one: measured
PREFETCHED = 4  # batches besides the current one, unless data_param sets another number


@dataclass
class Row:
    """A layer: the shapes of its tops, its own parameters, multiply-adds per sample, bytes of its tops (0 if they
    share the memory of a bottom)."""

    name: str
    type: str
    tops: list[Shape]
    parameters: int
    multiply_adds: float
    activations: int
    field: str
    lr_mult: list[float] = dataclasses.field(default_factory=list)
    decay_mult: list[float] = dataclasses.field(default_factory=list)


@dataclass
class Table:
    """One phase of a net. statistics: numbers that layers update themselves, such as the means of BatchNorm."""

    phase: str
    batch: int
    rows: list[Row]
    parameters: int
    statistics: int
    multiply_adds: float
    activations: int
    guessed: list[str]


# A summary has a table and the memory of the same graph.
_compile = lru_cache(maxsize=4)(compile)


def table(graph: Graph, guessed: list[str]) -> Table:
    planned = _compile(graph, CPU)
    fields, batch = counts.receptive_fields(graph), graph.batch_size
    own: dict[Node, list[Parameter]] = defaultdict(list)
    for parameter in graph.parameters:
        own[parameter.node].append(parameter)
    rows = [_row(own[node], planned, node, fields, batch) for node in graph.nodes]
    statistics = sum(math.prod(p.blob.shape) for p in graph.parameters if p.blob.statistic)
    total = sum(row.parameters for row in rows)
    work, activations = sum(row.multiply_adds for row in rows), sum(row.activations for row in rows)
    phase = pb.Phase.Name(graph.phase)
    return Table(phase, batch, rows, total - statistics, statistics, work, activations, guessed)


def _row(own: list[Parameter], planned: CompiledNet, node: Node, fields: dict, batch: int) -> Row:
    mults = [[1.0 if m is None else m for m in ms] for ms in ([p.lr_mult for p in own], [p.decay_mult for p in own])]
    compiled = planned.nodes[node]
    below = {planned.data[b] for b in compiled.bottoms}
    new = {s: s.bytes for s in (planned.data[t] for t in compiled.tops) if s not in below}
    seen = next((counts.shown(fields[t]) for t in node.tops if fields[t] != ()), "")
    work = counts.multiply_adds(node) / max(batch, 1)
    own_count = sum(math.prod(p.blob.shape) for p in own)
    return Row(
        node.name, node.layer.spec.type, [t.shape for t in node.tops], own_count, work, sum(new.values()), seen, *mults
    )


@dataclass
class Memory:
    """Bytes of a run. alone: of blobs and gradients without shared memory; arena: of the memory that they share."""

    weights: int
    gradients: int
    history: int
    alone: int
    arena: int
    constants: int
    workspace: int
    prefetch: int
    kernels: int = KERNELS

    @property
    def total(self) -> int:
        learned = self.weights + self.gradients + self.history
        return learned + self.arena + self.constants + self.workspace + self.prefetch + self.kernels


def memory(
    subject: InspectedNet,
    batch: int | None = None,
    threads: int = 1,
    train: bool = True,
    traits: DeviceTraits = CPU,
    graphs: Mapping[int, Graph] = MappingProxyType({}),
    processes: int = 1,
) -> Memory:
    """The memory of training: the TRAIN net, the solver's history, and the arena of each test net, which shares the
    weights. train=False: of the TEST net alone. traits: of the device. graphs: those of the subject that are built
    already, by phase. processes: that train together, each with a net."""

    def compiled(phase: int, batch: int | None = None) -> tuple[Graph, CompiledNet, int]:
        """A phase's graph, the compiled graph, and the bytes of its blobs without shared memory."""
        known = graphs.get(phase) if batch is None else None
        graph = known or subject.graph(phase, batch)[0]
        return graph, _compile(graph, traits), compile(graph, traits, Options(keep=True)).arena

    passes = updates.fused_passes(subject.solver, processes) if train and subject.solver is not None else 0
    graph, planned, alone = compiled(pb.TRAIN if train else pb.TEST, batch)
    fused = fused_updates(planned.graph, traits, passes)
    weights = BYTES * sum(math.prod(p.blob.shape) for p in graph.parameters)
    learns = bool(planned.backward)
    # The memory of a GPU holds neither.
    code = KERNELS + generated_code(graph, traits, learns) if traits.host_memory else 0
    forecast = Memory(
        weights,
        gradient_bytes(planned.graph, fused, passes, BYTES) if learns else 0,
        weights * histories(subject) if learns else 0,
        alone,
        planned.arena,
        planned.constant_bytes,
        scratch(planned, threads),
        prefetched(graph),
        code,
    )
    if train and subject.tests:
        test, planned, alone = compiled(pb.TEST)
        forecast.arena += subject.tests * planned.arena
        forecast.alone += subject.tests * alone
        forecast.prefetch += subject.tests * prefetched(test)
    return forecast


def histories(subject: InspectedNet) -> int:
    """How many numbers the solver keeps of each weight."""
    rule = updates.RULES.get(subject.solver.type) if subject.solver is not None else None
    return len(rule.history) if rule else 0


def generated_code(graph: Graph, traits: DeviceTraits, learns: bool) -> int:
    """Bytes of the code that oneDNN makes for the convolutions of a net, and of kernels that not every net loads."""
    layers = [node.layer for node in graph.nodes if isinstance(node.layer, Kernels)]
    sensitive = [layer for layer in layers if layer.prefers_channels_last(traits)]
    return CONVOLUTION * len(sensitive) // (1 if learns else 3) + WINOGRAD * any(
        _tiled(layer, traits, learns) for layer in sensitive
    )


def _tiled(layer: Kernels, traits: DeviceTraits, learns: bool) -> bool:
    """Whether a convolution may take one of Winograd's algorithms."""
    sizes = layer.x_shape, layer.y_shape, layer.window, layer.p.group
    names = algorithms.candidates(*sizes, traits.half_images)
    return algorithms.measured(*sizes, tests=not learns) and any(name in algorithms.WINOGRAD for name in names)


def prefetched(graph: Graph) -> int:
    """Bytes of the batches that a data source prefetches."""
    total = 0
    for node in graph.feeds:
        if feeding(node.layer).reads_source:
            ahead = node.layer.spec.data_param.prefetch if node.layer.spec.type == "Data" else PREFETCHED
            total += (1 + max(1, ahead)) * BYTES * sum(math.prod(t.shape) for t in node.tops)
    return total


def scratch(planned: CompiledNet, threads: int) -> int:
    """Bytes of scratch memory of the largest operation: for each thread a tile of columns and, in backward, a sum of
    the kernel's gradient; or what the algorithm of a convolution needs that needs most. And what is ``packed``."""
    kernels = [(n, n.layer) for n in planned.graph.nodes if isinstance(n.layer, Kernels)]
    backward = {step.node for step in planned.backward}
    largest = max((math.prod(layer.param_blobs[0].shape) for n, layer in kernels if n in backward), default=0)
    by_algorithm = [
        algorithms.workspace(
            layer.x_shape,
            layer.y_shape,
            layer.window,
            layer.p.group,
            layer.config.format.dtype is not None,
            threads,
            n in backward,
        )
        for n, layer in kernels
        if layer.channels_last and planned.traits.host_memory
    ]
    columns = [_columns(layer) for _, layer in kernels if not layer.channels_last and planned.traits.host_memory]
    return max(threads * BYTES * (max(columns, default=0) + largest), *by_algorithm, 0) + packed(planned)


def _columns(layer: Kernels) -> int:
    """Numbers of the columns of a convolution that is not channels_last, or of what they are filled from."""
    channels, out = layer.x_shape[1], layer.y_shape
    if not isinstance(layer, Convolution):
        channels, out = layer.y_shape[1], layer.x_shape
    channels = channels // layer.p.group * math.prod(layer.window.kernel[:-2])
    return algorithms.column_tile(channels, sliding.image(out)[-2:], sliding.flat(layer.window)).size


def packed(planned: CompiledNet) -> int:
    """Bytes that a GPU's convolutions keep in the order and dtype of cuDNN's plans: gradients of weights, until the end
    of a backward pass, and weights and bias where a bottom's gradient is computed from them."""
    total = 0
    for node in () if planned.traits.host_memory else {step.node for step in planned.backward}:
        layer = node.layer
        if isinstance(layer, Convolution) and layer.channels_last:
            shape, half = layer.param_blobs[0].shape, layer.config.format.dtype is not None
            gradients = math.prod(shape) if node.params[0].wanted and not layer.makes_weights else 0
            weights = math.prod(shape) + shape[0] if any(node.gradient_to) else 0
            if half or (shape[1] > 1 and math.prod(shape[2:]) > 1):  # else both orders are one
                total += (2 if half else BYTES) * (gradients + weights)
    return total


def largest_batch(
    subject: InspectedNet,
    limit: int,
    threads: int = 1,
    train: bool = True,
    traits: DeviceTraits = CPU,
    processes: int = 1,
) -> tuple[int, Memory] | None:
    """The largest batch with a memory of at most ``limit`` bytes, and that memory; None if one sample does not fit.

    Apart from alignment, memory is linear in batches from LINEAR on, so two of them determine where the search starts.
    In smaller ones inner products of few rows may need less.
    """

    def of(batch: int) -> Memory:
        return memory(subject, batch, threads, train, traits, processes=processes)

    first, second = of(LINEAR), of(LINEAR + 32)
    slope = (second.total - first.total) / 32
    if slope <= 0:
        raise subject.locate.error("the batch of this net cannot be changed", expected="a layer with a batch size")
    if first.total > limit:
        low = bisect_right(range(1, LINEAR), limit, key=lambda batch: of(batch).total)
        return (low, of(low)) if low else None
    low = min(LINEAR + int((limit - first.total) / slope) + 1, LARGEST)
    try:
        while of(low).total > limit:
            low -= max(1, int((of(low).total - limit) / slope))
    except CaffeliteError as error:  # blobs too large for 32-bit indices
        what = f"a batch of {low} would fit, but cannot be built: {error.what}"
        raise CaffeliteError(what, where=error.where) from None
    return low, of(low)
