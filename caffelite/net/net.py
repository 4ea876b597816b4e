"""A net that runs: a compiled net bound to a device."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.context import ExecutionContext
from ..devices.formula import Formula
from ..devices.links import Links
from ..devices.protocol import CapturedGraph, Device, Ring
from ..devices.types import Array
from ..errors import CaffeliteError
from ..layers import Layer, Shape
from ..layers.base.detection_base import DetectionJudge
from ..layers.base.feeding import Scheduled, feeding
from ..layers.base.state import LossScaled
from ..layers.loss import Loss
from . import parameters
from .binding import Binding, instance
from .compile import CompiledNet, Options, compile
from .deferred import inner_product
from .fused_updates import FusedGradient
from .inference import inference_pass
from .micro_batches import settling
from .nodes import Graph, Node, Value
from .parameters import Loaded, Parameters
from .pieces import Pieces

# Limits on outputs that stay on the device until they are fetched: passes, and values in total
RECORDED_PASSES, RECORDED_NUMBERS = 64, 1 << 22


class Net:
    """A compiled net on a device. It runs forward and backward, and has the parameters.

    seed: of the fillers. random_seed: key of the random numbers of passes. share: a net whose parameters this one uses,
    layer by layer by name (a TEST net and its TRAIN net). links: to the devices with the other parts of the net.
    replica_of: see ``replica``.
    ``graph``: separate nodes and values, with bound layers; ``compiled``: its steps and storages.
    """

    context: ExecutionContext
    params: Parameters
    loss: Array  # the total of the last passes, one number

    def __init__(
        self,
        compiled: CompiledNet,
        dev: Device,
        *,
        seed: int = 0,
        random_seed: int = 0,
        share: Net | None = None,
        links: Links | None = None,
        replica_of: Net | None = None,
    ):
        self.compiled, self.dev = instance(compiled), dev
        self.graph = graph = self.compiled.graph
        if replica_of:
            self.context, self.params, self.loss = replica_of.context, replica_of.params, replica_of.loss
        else:
            context = dev.make_context(random_seed)
            self.context = dataclasses.replace(context, links=links) if links else context
            borrowed = parameters.borrowed(graph, share.graph) if share else {}
            # A part of a net that learns has gradients, though its own parameters may learn nothing.
            learns = bool(self.compiled.backward) or (links is not None and graph.phase == pb.TRAIN)
            self.params = Parameters(graph, dev, learns, seed, borrowed, self.compiled.fused_updates)
            self.loss = dev.zeros(1)
        self.input_buffer = self.context.input_buffer
        self.training = graph.phase == pb.TRAIN
        self._binding = Binding(self.compiled, dev, self.context)
        self.data, self.diff = self._binding.data, self._binding.diff
        self._binding.bind_layers(self.params, replica_of.graph if replica_of else None)
        self._forward, self._backward = self._binding.forward, self._binding.backward
        for node in graph.nodes:
            if node.params and (index := node.params[0].owner) in self.compiled.fused_updates:
                fused = FusedGradient(node, dev, self.compiled.options.fused_passes)
                inner_product(node).deferred = self.params.fused_gradients[index] = fused
        self._terms = []  # of the loss, except those that layers add themselves
        for value, weight in graph.losses:
            layer = value.node.layer
            if isinstance(layer, Loss) and layer.adds_loss and not value.top:
                layer.total = self.loss, weight
            else:
                self._terms.append((dev.sum(Formula("x", ("x",)), weight), value))
        self._settling = settling(graph)
        self._rings: list[Ring] = []  # of outputs that are recorded
        self._runs_recorded: CapturedGraph | None = None
        self.inference = inference_pass(self.compiled, dev, self._forward)
        self._abs = dev.sum(Formula("abs(x)", ("x",)))
        self._mean = dev.zeros(1)
        for value, weight in self.compiled.constants:
            dev.fill(self.diff[value], weight)
        self._sources: list[Node] = replica_of._sources if replica_of else graph.feeds
        self.fed: list[Node] = [*self._sources, *graph.scheduled]
        self._fallible = [node for node in graph.nodes if type(node.layer).faults is not Layer.faults]
        self._shapes_before: dict[Node, list[Shape]] = {}  # of the layers with tops that ``set_shapes`` has changed
        self.starts: dict[Value, Array] = {}  # gradients that the user sets
        self._set_starts()
        # Layers that no graph can capture, and the passes around them
        self.requires_host = [node.name for node in graph.nodes if node.layer.requires_host]
        self.pieces = self._make_pieces() if self.requires_host and not (dev.eager or links) else None
        self._adds: bool | None = None
        self._runs_forward = dev.capture(self.run_forward, self.context, self.signature)
        self._runs_backward = dev.capture(self.run_backward, self.context, self.signature)

    @classmethod
    def of(
        cls,
        graph: Graph,
        dev: Device,
        *,
        seed: int = 0,
        random_seed: int = 0,
        share: Net | None = None,
        links: Links | None = None,
        keep: bool = False,
        fuse: bool = True,
        fixed_shapes: bool = True,
        fused_passes: int = 0,
        stored: frozenset[str] = frozenset(),
    ) -> Net:
        """Compiles a graph for a device and binds it. keep, fuse, fixed_shapes, fused_passes, stored: see
        ``compile.Options``."""
        trains = share is not None and share.graph.phase == pb.TRAIN  # the weights change too often to prepare them
        inference = graph.phase == pb.TEST and not trains and links is None and fixed_shapes
        compiled = compile(graph, dev.traits, Options(keep, fuse, fixed_shapes, inference, fused_passes, stored))
        return cls(compiled, dev, seed=seed, random_seed=random_seed, share=share, links=links)

    def replica(self) -> Net:
        """The same net with an arena of its own, for another micro-batch between the forward and the backward pass.

        It uses this net's parameters, gradients, loss, input buffer, sources and recurrent state. The forward passes
        of a net and its replicas run in the order of the micro-batches. Replicas do not follow ``rebuild``,
        ``scale_losses`` and a replaced source of this net.
        """
        return Net(self.compiled, self.dev, replica_of=self)

    def _make_pieces(self) -> tuple[Pieces, Pieces]:
        """The forward and the backward pass."""
        fused = {step.node: step.fused for step in (*self.compiled.forward, *self.compiled.backward)}
        make = functools.partial(Pieces, self.dev, self.context, fused=fused, built=self._binding.built)
        return make(self._forward), make(self._backward)

    def _set_starts(self) -> None:
        """Makes the gradients that the user sets, and the calls that fill gradients where backward starts."""
        user = [value for value, weight in self.compiled.starts if not weight]
        shapes = {value: array.shape for value, array in self.starts.items()}
        self.starts |= {v: self.dev.zeros(v.memory_shape) for v in user if shapes.get(v) != v.memory_shape}
        self.seeds = [(value, self._start(value, weight)) for value, weight in self.compiled.starts]

    def _start(self, value: Value, weight: float) -> Callable:
        """The call that fills a gradient where backward starts."""
        if weight:
            return functools.partial(self.dev.fill, value=weight)
        return functools.partial(self.dev.copy, self.starts[value])

    def set_shapes(self, shapes: Mapping[str, Shape]) -> None:
        """Gives tops of Input and DummyData layers other shapes, by name. ``reshape`` must follow before a pass.

        Arrays of a new shape are new objects; their content is undefined. Errors: no such top.
        """
        makers = {v.name: node for node in self.graph.feeds if feeding(node.layer).sets_shapes for v in node.tops}
        if unknown := [name for name in shapes if name not in makers]:
            expected = ", ".join(makers) or "none in this net"
            raise CaffeliteError(f'the shape of blob "{unknown[0]}" cannot be set', expected=expected)
        for node in {makers[name] for name in shapes}:
            self._shapes_before.setdefault(node, [v.shape for v in node.tops])
            self._set_tops(node, [tuple(shapes.get(v.name, v.shape)) for v in node.tops])

    def _set_tops(self, node: Node, shapes: list[Shape]) -> None:
        self._binding.reshape_tops(node, shapes)
        feeding(node.layer).set_shapes(shapes)
        self._binding.build(node)

    def reshape(self, nodes: Collection[Node] | None = None) -> None:
        """Gives blobs the shapes that follow from those that ``set_shapes`` has set. nodes: the layers that run until
        the next ``reshape``, whose blobs follow; None: all.

        Allocates memory only for shapes larger than all before, and makes operations only for new ones. Errors: the
        mistakes of the layers; the net then has the shapes that it had before ``set_shapes``.
        """
        before, self._shapes_before = self._shapes_before, {}
        self._binding.following = nodes
        if not before and not self._binding.needs_reshape():
            return
        try:
            self._binding.reshape()
        except CaffeliteError:
            for node, shapes in before.items():
                self._set_tops(node, shapes)
            with contextlib.suppress(CaffeliteError):  # layers that did not fit before either stay outdated
                self._binding.reshape()
            raise
        finally:
            self._set_starts()
            for value, weight in self.compiled.constants:
                self.dev.fill(self.diff[value], weight)

    def rebuild(self, node: Node) -> None:
        """Makes a layer's operations again, after the layer has changed."""
        self._binding.build(node)
        self._binding.reshapes += 1  # graphs that were captured with the old operations are void

    def gradient(self, node: Node, i: int):
        """The gradient of a node's bottom when backward has just run through the node: what all readers so far
        contributed, or what this one did; None where there is none."""
        return self._binding.gradient(node, i)

    # running

    def set_inputs(self, **arrays: np.ndarray) -> None:
        """Copies arrays into Input blobs, by name and in their shapes. Errors: no such input, another shape."""
        inputs = self.graph.inputs
        for name, array in arrays.items():
            if name not in inputs:
                what = f'"{name}" is no input'
                raise CaffeliteError(what, expected=", ".join(inputs) or "no inputs: the net has no Input layer")
            if np.shape(array) != inputs[name].shape:
                what = f'blob "{name}": a wrong shape'
                raise CaffeliteError(what, expected=list(inputs[name].shape), found=list(np.shape(array)))
        for name, array in arrays.items():
            self.dev.upload(self.data[inputs[name]], np.asarray(array, self.dev.dtype))

    def feed(
        self,
        clocks: Sequence[tuple[int, int]],
        more: Callable[[int], None] | None = None,
        nodes: Collection[Node] | None = None,
    ) -> None:
        """Draws the batches of the coming passes, (iteration, part) each, at most ``ahead`` of them; the first one runs
        next.

        more(which): writes additional values of the caller for pass ``which``. nodes: the layers that draw; None: all.
        """
        input_buffer = self.input_buffer
        input_buffer.begin()
        for which, (iteration, micro_batch) in enumerate(clocks):
            input_buffer.set_clock(which, iteration, micro_batch)
            for node in self.fed if nodes is None else nodes:
                assert isinstance(node.layer, Scheduled)
                node.layer.feed(which, iteration, micro_batch)
            if more:
                more(which)
        input_buffer.send(len(clocks))

    @property
    def ahead(self) -> int:
        """How many passes can be fed at once."""
        return self.input_buffer.depth if all(feeding(node.layer).feeds_ahead() for node in self.graph.feeds) else 1

    def signature(self) -> tuple:
        return (self._binding.reshapes, *(feeding(node.layer).signature() for node in self.graph.feeds))

    @property
    def steps(self) -> tuple[list[tuple[Node, Callable]], list[tuple[Node, Callable]]]:
        """The calls of a forward pass and of a backward pass in order, each with the layer that it is a part of."""
        return self._forward, self._backward

    def forward(self, iteration: int = 0, micro_batch: int = 0, observe: Callable | None = None) -> None:
        """One forward pass of a new batch; its loss is added to ``loss``, of layers that settle by ``settle``.

        The iteration, and which part of its batch this is, key the random numbers. observe(node) is called after each
        layer.
        """
        self.feed([(iteration, micro_batch)])
        if self.pieces and not observe:
            self.pieces[0].run()
            self._add_losses()
        elif observe or self.requires_host or self.context.links:
            self.run_forward(observe)
        else:
            self._runs_forward()

    def backward(self, add: bool = False, observe: Callable | None = None) -> None:
        """One backward pass; ``add``: parameter gradients are accumulated (later micro-batches)."""
        if self.pieces and not observe:
            self._begin_backward(add)
            self.pieces[1].run(add)
        elif observe or self.requires_host or self.context.links:
            self.run_backward(add, observe)
        else:
            self._runs_backward(add)

    def keep_parameters(self) -> None:
        """The parameters stay as they are now: further passes do not look whether they have changed."""
        if self.inference:
            self.inference.fixed = True

    def run_forward(self, observe: Callable | None = None) -> None:
        """The forward pass of the batch that was fed."""
        if self.inference:
            self.inference.run(observe)
        elif observe:
            for node, run in self._forward:
                run()
                if node not in self._settling:
                    observe(node)
        else:
            with self.context.forward_pass():
                for _, run in self._forward:
                    run()
        self._add_losses()

    def settle(self, observe: Callable | None = None) -> None:
        """Completes the forward pass of a micro-batch, after those of all micro-batches of its batch. observe(node) is
        called after each layer that settles."""
        if not self._settling:
            return
        for node, layer in self._settling.items():
            layer.settle(self.data[node.tops[0]])
            if observe:
                observe(node)
        self._add_losses(settled=True)

    def _add_losses(self, settled: bool = False) -> None:
        if self._settling and not settled:
            return
        for total, value in self._terms:
            total(self.data[value], self.loss, add=True)

    def run_backward(self, add: bool = False, observe: Callable | None = None) -> None:
        self._begin_backward(add)
        with self.context.backward_pass(add) if not (observe or self._shares) else contextlib.nullcontext():
            for node, run in self._backward:
                run()
                if observe:
                    observe(node)

    @functools.cached_property
    def _shares(self) -> bool:
        """Whether layers share a parameter that learns."""
        nodes = (node for step in self.compiled.backward for node in (step.node, *step.fused))
        owners = [ref.owner for node in nodes for ref in node.params if ref.wanted]
        return len(owners) > len(set(owners))

    def _begin_backward(self, add: bool) -> None:
        self.set_add(add)
        for value, fill in self.seeds:
            fill(self.diff[value])

    def set_add(self, add: bool) -> None:
        """The first layer to reach a parameter overwrites its gradient, those that share it add."""
        if self._adds == add:
            return
        self._adds = add
        seen: set[int] = set()
        for step in self.compiled.backward:
            for node in (step.node, *step.fused):
                for ref, param in zip(node.params, node.layer.params, strict=True):
                    param.add = add or ref.owner in seen
                    if ref.wanted:
                        seen.add(ref.owner)

    def scale_losses(self, factor) -> None:
        """Multiplies the losses' weights, from which backward starts, and the gradients that layers add themselves by
        ``factor``, a number of the device."""
        starts = [*self.compiled.starts, *self.compiled.constants]
        scaled = Formula("weight * factor", (), ("factor",), ("weight",))
        for node in self.graph.nodes:
            if isinstance(node.layer, LossScaled):
                node.layer.loss_scale = factor
        maps = ((value, self.dev.map(scaled, weight=weight)) for value, weight in starts)
        self.seeds = [(value, functools.partial(run, factor)) for value, run in maps]

    def clear_loss(self) -> None:
        self.dev.fill(self.loss, 0)

    def check_faults(self) -> None:
        """Raises the error of the first layer that saw bad data in the last passes."""
        for node in self._fallible:
            if fault := node.layer.faults():
                raise node.layer.error(fault)

    # looking

    @property
    def blobs(self) -> dict[str, Array]:
        """Blob arrays by name, the last version of each; N×C×H×W however they are stored."""
        return {name: self.shown(self.data[value], value) for name, value in self.graph.values.items()}

    def shown(self, array, value: Value):
        """A blob's array as N×C×H×W, of float32 numbers: a copy where they are narrower."""
        if array is None or not value.channels_last:
            return array
        return (self.dev.to_float32(array) if value.dtype else array).transpose(0, 3, 1, 2)

    def outputs(self) -> list[tuple[Value, float, np.ndarray]]:
        """(blob, loss weight, values) of the graph's outputs, in alphabetical order."""
        weights = dict(self.graph.losses)
        for value in self._binding.varied & set(self.graph.outputs) if not self.training else ():
            if isinstance(value.node.layer, DetectionJudge):
                continue  # its mean is the mean average precision
            what = f'output "{value.name}" changes its shape with the data, and has no mean'
            raise value.node.layer.error(what, "top", value.top, remedy="give it to a Silence layer", outer=True)
        return [(v, weights.get(v, 0.0), self.dev.download(self.data[v]).reshape(-1)) for v in self.graph.outputs]

    def recorded(self, passes: Sequence[int]) -> Iterator[list[tuple[Value, float, np.ndarray]]]:
        """``outputs`` of one forward pass after another, numbered so. They are fetched for many at once, so that a GPU
        need not wait."""
        weights = dict(self.graph.losses)
        sizes = [math.prod(v.shape) for v in self.graph.outputs]
        most = max(1, min(RECORDED_PASSES, RECORDED_NUMBERS // max(1, sum(sizes))))
        if not self._runs_recorded:
            self._rings = [self.dev.ring(most, size) for size in sizes]
            self._runs_recorded = self.dev.capture(self._run_recorded, self.context, self.signature)
        for start in range(0, len(passes), most):
            chunk, at = passes[start : start + most], 0
            for ring in self._rings:
                ring.reset(np.zeros((0, 1)))
            while at < len(chunk):
                count = min(self.ahead, len(chunk) - at)
                count = 1 << count.bit_length() - 1
                self.feed([(i, 0) for i in chunk[at : at + count]])
                self._runs_recorded(count)
                at += count
            rows = [ring.last(at, at) for ring in self._rings]
            for i in range(at):
                yield [(v, weights.get(v, 0.0), means[i]) for v, means in zip(self.graph.outputs, rows, strict=True)]

    def _run_recorded(self, count: int) -> None:
        for which in range(count):
            self.input_buffer.select(which)
            self.run_forward()
            for ring, value in zip(self._rings, self.graph.outputs, strict=True):
                ring.append(self.data[value])

    def mean_abs(self, array) -> float:
        """Mean absolute value, what debug_info prints."""
        if not array.flags.c_contiguous:
            self.dev.assign(array, whole := self.dev.empty(array.shape, array.dtype))
            array = whole
        self._abs(self.dev.to_float32(array) if array.dtype.itemsize == 2 else array, self._mean)
        return float(self.dev.download(self._mean)[0]) / max(1, math.prod(array.shape))

    def layer_blobs(self) -> Iterator[tuple[Node, list[np.ndarray]]]:
        """Every layer with its parameters as host arrays, as a caffemodel stores them."""
        return parameters.layer_blobs(self.graph, self.dev)

    def load(self, blobs: dict[str, list[np.ndarray]], source: str) -> Loaded:
        """Copies parameters by layer name; see ``parameters.load``."""
        return parameters.load(self.graph, self.dev, blobs, source)

    def sources(self) -> Iterable[tuple[str, Any]]:
        return [(node.name, source) for node, source in self.graph.sources]

    def close(self) -> None:
        """Ends the threads of its sources."""
        for _, source in self.sources():
            source.close()
