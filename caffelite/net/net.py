"""A net: a plan bound to a device. It runs forward and backward, and holds the parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..layers import fillers
from . import layout
from . import plan as planning
from .graph import Graph, Node, Parameter, Value
from .packing import ALIGN
from .plan import Step
from .slices import Slice

RECORDED, ROOM = 64, 1 << 22  # passes whose outputs wait on the device, at most, and numbers of all of them
PARAM_ALIGN = 16  # elements: each parameter starts on a cache line


@dataclass(eq=False)
class ParameterView:
    """A parameter blob as a layer uses it: views into the net's flat buffers.

    ``wanted``: its gradient is computed; ``add``: the gradient adds to what ``diff`` holds; ``diff`` is None in a net
    that only tests.
    """

    data: object
    diff: object
    wanted: bool
    add: bool = False


class Parameters:
    """The learnable parameters of a net: ``data`` and ``diff`` are one flat buffer each, ``blobs`` the views, one a
    Parameter.

    borrowed: blobs of another net, by Learnable, that take no room here.
    """

    def __init__(self, graph: Graph, dev, train: bool, seed: int, borrowed: dict[int, object]):
        self.parameters = graph.parameters
        self.starts, at = [], 0
        for i, parameter in enumerate(self.parameters):
            self.starts.append(at)
            at += 0 if i in borrowed else -(-math.prod(parameter.blob.shape) // PARAM_ALIGN) * PARAM_ALIGN
        self.size = at
        self.data = dev.zeros(at)
        self.diff = dev.zeros(at) if train else None
        self.blobs = [borrowed.get(i) if i in borrowed else self.cut(self.data, i) for i in range(len(self.parameters))]
        self.diffs = [
            self.cut(self.diff, i) if train and i not in borrowed else None for i in range(len(self.parameters))
        ]
        for i, parameter in enumerate(self.parameters):
            if i not in borrowed:
                rng = fillers.generator(seed, "filler", parameter.node.name, parameter.index)
                flat = self.blobs[i].reshape(-1)
                for start, values in fillers.pieces(parameter.blob.filler, parameter.blob.shape, rng):
                    dev.upload(flat[start : start + values.size], values)

    def cut(self, flat, index: int):
        """Parameter ``index``'s part of a flat buffer, in the parameter's shape."""
        shape = self.parameters[index].blob.shape
        start = self.starts[index]
        return flat[start : start + math.prod(shape)].reshape(shape)


class Net:
    """A graph on a device.

    seed: of the fillers. random_seed: key of the random numbers of passes: see devices.context.
    share: a net whose parameters this one uses, layer by layer by name (a TEST net beside its TRAIN net).
    keep: every blob and gradient keeps its own memory, so that all of them hold what the last pass computed.
    """

    def __init__(
        self,
        graph: Graph,
        dev: Device,
        *,
        seed: int = 0,
        random_seed: int = 0,
        share: Net | None = None,
        keep: bool = False,
        fuse: bool = True,
    ):
        self.graph, self.dev = graph, dev
        self.context = dev.make_context(random_seed)
        self.input_buffer = self.context.input_buffer
        layout.assign(graph, dev)
        for node in graph.nodes:
            node.layer.configure_for(dev)
        self.plan = planning.make(graph, np.dtype(dev.dtype).itemsize, keep, fuse, dev.sums_gradients)
        self.training = graph.phase == pb.TRAIN
        self.params = Parameters(graph, dev, bool(self.plan.backward), seed, _borrowed(graph, share) if share else {})
        self._bind_memory()
        self._bind_layers()
        self.loss = dev.zeros(1)
        self._terms = []  # of the loss, but for those that layers add themselves
        for value, weight in graph.losses:
            if value.node.layer.adds_loss and not value.top:
                value.node.layer.total = self.loss, weight
            else:
                self._terms.append((dev.sum(Formula("x", ("x",)), weight), value))
        self._rings = None  # of outputs that are recorded
        self._abs = dev.sum(Formula("abs(x)", ("x",)))
        self._mean = dev.zeros(1)
        for value, weight in self.plan.constants:
            dev.fill(self.diff[value], weight)
        self._feeds = graph.feeds
        self.starts = {
            value: dev.zeros(value.memory_shape) for value, weight in self.plan.seeds if not weight
        }  # set by the user
        self._seeds = [
            (
                value,
                functools.partial(dev.fill, value=weight)
                if weight
                else functools.partial(dev.copy, self.starts[value]),
            )
            for value, weight in self.plan.seeds
        ]
        self.requires_host = [
            node.name for node in graph.nodes if node.layer.requires_host
        ]  # layers that no graph can capture
        self._runs_forward, self._runs_backward = (
            dev.capture(body, self.context, self.signature) for body in (self.run_forward, self.run_backward)
        )

    # binding

    def _bind_memory(self) -> None:
        dev, plan = self.dev, self.plan
        self._arena = dev.zeros((max(plan.arena, ALIGN),), np.uint8)
        self._constants = dev.zeros((max(plan.constant_bytes, ALIGN),), np.uint8)
        at = 0
        for value, _ in plan.constants:
            plan.diff[value].offset = at
            at += plan.diff[value].bytes
        self._fixed = {value for value, _ in plan.constants}
        self._varied: set[Value] = set()
        # What is stored in the same place alike is the same array, so that layers see where there is nothing to copy.
        self._view = functools.cache(
            lambda constant, *how: dev.view(self._constants if constant else self._arena, *how)
        )
        self.data = {v: self._placed(v, s, plan.data_slices.get(v)) for v, s in plan.data.items()}
        self.diff = {v: self._placed(v, s, plan.diff_slices.get(v), v in self._fixed) for v, s in plan.diff.items()}

    def _placed(self, value: Value, storage: planning.Storage, place: Slice | None, constant: bool = False):
        """A value's array, or its gradient's, in a storage."""
        at, shape = storage.offset, value.memory_shape
        if place and place.pitch:
            return self._view(constant, at, (*shape[:-1], place.pitch), value.dtype)[
                ..., place.start : place.start + shape[-1]
            ]
        itemsize = np.dtype(value.dtype or self.dev.dtype).itemsize
        return self._view(constant, at + place.start * itemsize if place else at, shape, value.dtype)

    def _bind_layers(self) -> None:
        dev = self.dev
        for step in self.plan.forward:
            if step.node.layer.can_fuse_relu:
                last = step.fused[-1].layer if step.fused else step.node.layer
                step.node.layer.slope = last.p.negative_slope if last.spec.type == "ReLU" else None
        for node in self.graph.nodes:
            layer = node.layer
            layer.dev, layer.context = dev, self.context
            layer.params = [
                ParameterView(
                    self._shaped(self.params.blobs[p.owner], node, i),
                    self._shaped(self.params.diffs[p.owner], node, i),
                    p.wanted,
                )
                for i, p in enumerate(node.params)
            ]
            if layer.varies:
                layer.resize = functools.partial(self._resize, node)
        for node in self.graph.nodes:
            self._build(node)
        names = functools.partial(map, "g{}".format)
        self._total = functools.cache(
            lambda count: dev.map(Formula(" + ".join(names(range(count))), tuple(names(range(count)))))
        )
        self._brought: dict[tuple[Node, int], object] = {}  # gradients of bottoms that are parts of a value's
        self._forward = [self._forward_step(step) for step in self.plan.forward]
        self._backward = [call for step in self.plan.backward for call in self._backward_step(step)]

    def rebuild(self, node: Node) -> None:
        """Makes a layer's operations anew, after a change of its own."""
        self._build(node)

    def _build(self, node: Node) -> None:
        layer, storages = node.layer, self.plan.saved.get(node, {})
        layer.saved = {
            name: self.dev.view(self._arena, storages[name].offset, shape, dtype)
            for name, (shape, dtype) in layer.saved_shapes.items()
            if name in storages
        }
        layer.build(self.dev)

    def _resize(self, node: Node, shapes: list[tuple[int, ...]]) -> list:
        """Gives a node's tops other shapes, none larger than was planned, and so all that follows; the memory stays
        where it is."""
        changed = set()
        self._reshape(node, shapes, changed)
        for follower in self.graph.nodes[node.index + 1 :]:
            layer = follower.layer
            if changed.isdisjoint(follower.bottoms):
                continue
            params = [p.shape for p in layer.param_blobs]
            layer.param_blobs, layer.saved_shapes = [], {}
            self._reshape(follower, layer.shapes([b.shape for b in follower.bottoms]), changed)
            if params != [p.shape for p in layer.param_blobs]:
                remedy = f'its parameters must not depend on how many samples "{node.name}" lets pass'
                raise layer.outer_error("its parameters change their shape with the data", remedy=remedy)
            self._build(follower)
        self._varied |= changed
        # In place, for the pass that runs through them.
        self._forward[:] = [self._forward_step(step) for step in self.plan.forward]
        self._backward[:] = [call for step in self.plan.backward for call in self._backward_step(step)]
        return [self.data[top] for top in node.tops]

    def _reshape(self, node: Node, shapes: list[tuple[int, ...]], changed: set[Value]) -> None:
        for value, shape in zip(node.tops, shapes, strict=True):
            if value.shape == tuple(shape):
                continue
            value.shape = tuple(shape)
            changed.add(value)
            for arrays, storages in ((self.data, self.plan.data), (self.diff, self.plan.diff)):
                if value in arrays:
                    constant = arrays is self.diff and value in self._fixed
                    arrays[value] = self.dev.view(
                        self._constants if constant else self._arena, storages[value].offset, value.shape
                    )

    def _shaped(self, blob, node: Node, i: int):
        """A shared parameter seen in the shape of this layer (PERMISSIVE sharing compares counts only)."""
        shape = node.layer.param_blobs[i].shape
        return blob if blob is None or blob.shape == shape else blob.reshape(shape)

    def _forward_step(self, step: Step) -> tuple[Node, Callable]:
        node = step.node
        return node, functools.partial(
            node.layer.forward, [self.data[v] for v, _ in step.bottoms], [self.data[v] for v in step.tops]
        )

    def _backward_step(self, step: Step) -> Iterator[tuple[Node, Callable]]:
        node, dx = step.node, []
        for i, (bottom, wanted) in enumerate(step.bottoms):
            dx.append(
                self._part(step.spare[i], bottom) if i in step.spare else self.diff.get(bottom) if wanted else None
            )
        self._brought.update({(node, i): array for i, array in enumerate(dx) if i in step.spare and not self.plan.adds})
        x, y = [self.data[v] for v, _ in step.bottoms], [self.data[v] for v in step.tops]
        dy = [self._part(s, step.tops[0]) for s in step.parts] or [self.diff.get(v) for v in step.tops]
        yield node, functools.partial(node.layer.backward, x, y, dy, dx)
        for i in step.spare if self.plan.adds else ():
            yield node, functools.partial(self.dev.add, dx[i], self.diff[node.bottoms[i]])
        for value, storages in step.sums.items():
            yield (
                node,
                functools.partial(
                    self._total(len(storages)), *[self._part(s, value) for s in storages], self.diff[value]
                ),
            )

    def _part(self, storage: planning.Storage, value: Value):
        """A storage as a value's gradient."""
        return self._view(False, storage.offset, value.memory_shape, value.dtype)

    def gradient(self, node: Node, i: int):
        """The gradient of a node's bottom when backward has just run through the node: what all readers so far brought
        together, or what this one did; None where there is none."""
        return self._brought.get((node, i), self.diff.get(node.bottoms[i])) if node.gradient_to[i] else None

    # running

    def set_inputs(self, **arrays: np.ndarray) -> None:
        """Copies arrays into Input blobs, by name and in their shapes. Errors: no such input, another shape."""
        inputs = self.graph.inputs
        for name, array in arrays.items():
            if name not in inputs:
                raise CaffeliteError(
                    f'"{name}" is no input', expected=", ".join(inputs) or "no inputs: the net has no Input layer"
                )
            if np.shape(array) != inputs[name].shape:
                raise CaffeliteError(
                    f'blob "{name}": a wrong shape', expected=list(inputs[name].shape), found=list(np.shape(array))
                )
        for name, array in arrays.items():
            self.dev.upload(self.data[inputs[name]], np.asarray(array, self.dev.dtype))

    def feed(self, clocks: Sequence[tuple[int, int]], more: Callable[[int], None] | None = None) -> None:
        """Draws the batches of the coming passes, (iteration, part) each, at most ``ahead`` of them; the first one runs
        next.

        more(which): puts what others send along with pass ``which``.
        """
        input_buffer = self.input_buffer
        input_buffer.begin()
        for which, (iteration, part) in enumerate(clocks):
            input_buffer.set_clock(which, iteration, part)
            for node in self._feeds:
                node.layer.feed(which, iteration, part)
            if more:
                more(which)
        input_buffer.send(len(clocks))

    @property
    def ahead(self) -> int:
        """How many passes can be fed at once."""
        return self.input_buffer.depth if all(node.layer.deep for node in self.graph.feeds) else 1

    def signature(self) -> tuple:
        return tuple(node.layer.signature() for node in self.graph.feeds)

    def forward(self, iteration: int = 0, part: int = 0, watch: Callable | None = None) -> None:
        """One forward pass of a new batch; its loss is added to ``loss``.

        The iteration, and which part of its batch this is, key the random numbers. watch(node) is called after each
        layer.
        """
        self.feed([(iteration, part)])
        if watch or self.requires_host:
            self.run_forward(watch)
        else:
            self._runs_forward()

    def backward(self, add: bool = False, watch: Callable | None = None) -> None:
        """One backward pass; parameter gradients add to what is there where ``add`` (later micro-batches)."""
        if watch or self.requires_host:
            self.run_backward(add, watch)
        else:
            self._runs_backward(add)

    def run_forward(self, watch: Callable | None = None) -> None:
        """The forward pass of the batch that was fed."""
        for node, run in self._forward:
            run()
            if watch:
                watch(node)
        for total, value in self._terms:
            total(self.data[value], self.loss, add=True)

    def run_backward(self, add: bool = False, watch: Callable | None = None) -> None:
        self._set_add(add)
        for value, fill in self._seeds:
            fill(self.diff[value])
        for node, run in self._backward:
            run()
            if watch:
                watch(node)

    def _set_add(self, add: bool) -> None:
        """The first layer to reach a parameter overwrites its gradient, those that share it add."""
        if getattr(self, "_adds", None) == add:
            return
        self._adds = add
        seen: set[int] = set()
        for step in self.plan.backward:
            for node in (step.node, *step.fused):
                for ref, param in zip(node.params, node.layer.params, strict=True):
                    param.add = add or ref.owner in seen
                    if ref.wanted:
                        seen.add(ref.owner)

    def scale_losses(self, factor) -> None:
        """Backward starts from the losses' weights times ``factor`` (1), a number of the device."""
        starts = [*self.plan.seeds, *self.plan.constants]
        scaled = Formula("weight * factor", (), ("factor",), ("weight",))
        self._seeds = [
            (value, functools.partial(self.dev.map(scaled, weight=weight), factor)) for value, weight in starts
        ]

    def clear_loss(self) -> None:
        self.dev.fill(self.loss, 0)

    def check_faults(self) -> None:
        """Raises the error of the first layer that saw bad data in the last passes."""
        for node in self.graph.nodes:
            if fault := node.layer.faults():
                raise node.layer.error(fault)

    # looking

    @property
    def blobs(self) -> dict[str, object]:
        """Blob arrays by name, the last version of each; N×C×H×W however they lie in memory."""
        return {name: self.shown(self.data[value], value) for name, value in self.graph.values.items()}

    def shown(self, array, value: Value):
        """A blob's array as N×C×H×W, of float32 numbers: a copy where they are narrower."""
        if array is None or not value.last:
            return array
        return (self.dev.to_float32(array) if value.narrow else array).transpose(0, 3, 1, 2)

    def outputs(self) -> list[tuple[Value, float, np.ndarray]]:
        """(blob, loss weight, values) of the tops that nobody reads, in alphabetical order."""
        weights = dict(self.graph.losses)
        for value in self._varied & set(self.graph.outputs) if not self.training else ():
            what = f'output "{value.name}" changes its shape with the data, and has no mean'
            raise value.node.layer.outer_error(what, "top", value.top, remedy="give it to a Silence layer")
        return [(v, weights.get(v, 0.0), self.dev.download(self.data[v]).reshape(-1)) for v in self.graph.outputs]

    def recorded(self, passes: Sequence[int]) -> Iterator[list[tuple[Value, float, np.ndarray]]]:
        """``outputs`` of one forward pass after another, numbered so. They are fetched for many at once, so that a GPU
        need not wait."""
        weights = dict(self.graph.losses)
        sizes = [math.prod(v.shape) for v in self.graph.outputs]
        most = max(1, min(RECORDED, ROOM // max(1, sum(sizes))))
        if self._rings is None:
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
                yield [(v, weights.get(v, 0.0), found[i]) for v, found in zip(self.graph.outputs, rows, strict=True)]

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
        for node in self.graph.nodes:
            if node.place >= 0:  # one of the file's
                yield node, [self.dev.download(p.data) for p in node.layer.params]

    def load(self, blobs: dict[str, list[np.ndarray]], source: str) -> Loaded:
        """Copies parameters by layer name; a shape that does not fit is an error, a name that is missing is told.

        A blob that belongs to another layer may be left out (None, or the last ones lacking), as Caffe does in HDF5.
        """
        matched = []
        for node in self.graph.nodes:
            if not node.params or node.name not in blobs:
                continue
            given, params = blobs[node.name], node.layer.params
            given = [*given, *[None] * sum(not self._owns(node, i) for i in range(len(given), len(params)))]
            what = f'layer "{node.name}" ({node.layer.spec.type}): {source} does not fit'
            if len(given) != len(params):
                raise CaffeliteError(what, where=node.layer.locate(), expected=f"{len(params)} blobs", found=len(given))
            for i, (param, array) in enumerate(zip(params, given, strict=True)):
                if array is None:
                    if self._owns(node, i):
                        raise CaffeliteError(what, where=node.layer.locate(), expected=f"blob {i}", found="none")
                    continue
                if not _same_shape(array.shape, param.data.shape):
                    remedy = "rename the layer to start it anew"
                    raise CaffeliteError(
                        f"{what}, blob {i}",
                        where=node.layer.locate(),
                        expected=list(param.data.shape),
                        found=list(array.shape),
                        remedy=remedy,
                    )
            for param, array in ((p, a) for p, a in zip(params, given, strict=True) if a is not None):
                self.dev.upload(param.data, array.reshape(param.data.shape))
            matched.append(node.name)
        own = [n.name for n in self.graph.nodes if any(self._owns(n, i) for i in range(len(n.params)))]
        missing = [name for name in own if name not in blobs]
        return Loaded(matched, sorted(set(blobs) - set(matched)), missing)

    def _owns(self, node: Node, i: int) -> bool:
        """Whether a layer's parameter is its own, not another layer's of the same name."""
        parameter = self.graph.parameters[node.params[i].owner]
        return parameter.node is node and parameter.index == i

    def sources(self) -> Iterable[tuple[str, object]]:
        return [(n.name, n.layer.source) for n in self.graph.nodes if getattr(n.layer, "source", None) is not None]

    def close(self) -> None:
        """Ends the threads of its sources."""
        for _, source in self.sources():
            source.close()


def _borrowed(graph: Graph, other: Net) -> dict[int, object]:
    """Another net's blobs for the learnable parameters of a graph, by layer name; one that differs in shape is an
    error."""
    theirs = {node.name: node.layer.params for node in other.graph.nodes}
    found = {}
    for i, parameter in enumerate(graph.parameters):
        node, params = parameter.node, theirs.get(parameter.node.name, [])
        if parameter.index < len(params):
            blob = params[parameter.index].data
            if tuple(blob.shape) != tuple(parameter.blob.shape):
                what = f'parameter {parameter.index} of layer "{node.name}" differs between the nets'
                raise CaffeliteError(
                    what, where=node.layer.locate(), expected=list(blob.shape), found=list(parameter.blob.shape)
                )
            found[i] = blob
    return found


@dataclass
class Loaded:
    """What a caffemodel brought: layers that took weights, layers of the file that no layer here matches, layers here
    that it lacks."""

    matched: list[str]
    skipped: list[str]
    missing: list[str]


def _same_shape(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Equal, or equal up to leading ones: old files store every blob with four axes."""
    trim = [tuple(s)[next((i for i, d in enumerate(s) if d != 1), len(s)) :] for s in (given, wanted)]
    return trim[0] == trim[1]


def learnable_multipliers(parameter: Parameter) -> tuple[float, float]:
    """(lr_mult, decay_mult), 1 where unset."""
    return tuple(1.0 if m is None else m for m in (parameter.lr_mult, parameter.decay_mult))
