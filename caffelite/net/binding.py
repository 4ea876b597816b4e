"""Binds a compiled net to a device: arrays for its storages, copies of its layers, and calls for its steps."""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..devices.context import ExecutionContext
from ..devices.dtypes import BFLOAT16, HALF_DTYPES
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.types import Array
from ..layers import Shape
from ..layers.base.feeding import Feeding
from ..layers.base.fusing import Fusing
from ..layers.base.state import Carrying, Varying, carried, saved_blobs
from .compile import CompiledNet
from .nodes import Graph, Node, Value, copied
from .packing import ALIGN, Storage, aligned
from .parameters import Parameters
from .slices import Slice
from .steps import Step

STORED_DTYPES = {"bfloat16": BFLOAT16}  # NumPy has no bfloat16


def stored_dtype(name: str | None) -> DTypeLike | None:
    """The NumPy dtype that stores numbers of a dtype; None for the device's."""
    return STORED_DTYPES.get(name, name) if name else None


def instance(compiled: CompiledNet) -> CompiledNet:
    """Copies a net with its nodes and values, so that the copy can be bound to a device."""
    graph, nodes, values = copied(compiled.graph, lambda node: node.layer)
    graph.complete = True

    def step_of(step: Step) -> Step:
        fused, summand = tuple(nodes[n] for n in step.fused), values[step.summand] if step.summand else None
        sums = {values[v]: parts for v, parts in step.sums.items()}
        return Step(nodes[step.node], fused, summand, step.partial, sums, step.parts, step.overwrites_gradient)

    def keyed(table: Mapping[Any, Any], by: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
        return MappingProxyType({by[key]: value for key, value in table.items()})

    return dataclasses.replace(
        compiled,
        graph=graph,
        nodes=MappingProxyType({source: nodes[n] for source, n in compiled.nodes.items()}),
        values=MappingProxyType({source: values[v] for source, v in compiled.values.items()}),
        forward=tuple(map(step_of, compiled.forward)),
        backward=tuple(map(step_of, compiled.backward)),
        saved=keyed(compiled.saved, nodes),
        starts=tuple((values[v], weight) for v, weight in compiled.starts),
        constants=tuple((values[v], weight) for v, weight in compiled.constants),
        data=keyed(compiled.data, values),
        diff=keyed(compiled.diff, values),
        data_slices=keyed(compiled.data_slices, values),
        diff_slices=keyed(compiled.diff_slices, values),
    )


class Binding:
    """The arrays and steps of a compiled net on a device. ``data`` and ``diff``: arrays by value; ``forward`` and
    ``backward``: (node, call) in order; ``varied``: values whose shapes have changed; ``reshapes``: how often shapes
    have changed; ``outdated``: nodes that do not fit the shapes of their bottoms yet; ``following``: the nodes that may
    follow them, those of the pass; None: all; ``built``: how often the operations of each node were made."""

    def __init__(self, compiled: CompiledNet, dev: Device, context: ExecutionContext):
        self.compiled, self.dev, self.context, self.graph = compiled, dev, context, compiled.graph
        self.arena = dev.zeros((max(compiled.arena, ALIGN),), np.uint8)
        self.constants = dev.zeros((max(compiled.constant_bytes, ALIGN),), np.uint8)
        self.varied: set[Value] = set()
        self.outdated: set[Node] = set()
        self.following: Collection[Node] | None = None
        self.reshapes = 0
        self.built: collections.Counter[Node] = collections.Counter()
        self._operations = Operations()
        self._grown: dict[Storage, Array] = {}  # the memory of storages that a new shape no longer fits into
        self._grown_views: dict[tuple[Storage, Shape, Any], Array] = {}
        # The same storage, offset and format give the same array object, so that layers can detect unneeded copies.
        self._view = functools.cache(self._make_view)
        self.data = {v: self._array(v, s, compiled.data_slices.get(v)) for v, s in compiled.data.items()}
        self.diff = {v: self._array(v, s, compiled.diff_slices.get(v)) for v, s in compiled.diff.items()}
        self._partial: dict[tuple[Node, int], object] = {}  # gradients of bottoms that are parts of a value's
        self._total = functools.cache(self._sum_of)
        self.forward: list[tuple[Node, Callable]] = []
        self.backward: list[tuple[Node, Callable]] = []

    def _make_view(self, constant: bool, offset: int, shape: Shape, dtype: Any) -> Array:
        return self.dev.view(self.constants if constant else self.arena, offset, shape, dtype)

    def _array(self, value: Value, storage: Storage, region: Slice | None = None) -> Array:
        """A value's array, or its gradient's, in a storage."""
        at, shape = storage.offset, value.memory_shape
        dtype: Any = stored_dtype(value.dtype)
        if region and region.pitch:
            wide = self._view(storage.constant, at, (*shape[:-1], region.pitch), dtype)
            return wide[..., region.start : region.start + shape[-1]]
        itemsize = np.dtype(dtype or self.dev.dtype).itemsize
        if region:
            return self._view(storage.constant, at + region.start * itemsize, shape, dtype)
        return self._view_of(storage, shape, dtype)

    def _view_of(self, storage: Storage, shape: Shape, dtype: Any) -> Array:
        """An array in a storage. The storage gets memory of its own once the array needs more bytes than it has."""
        size = math.prod(shape) * np.dtype(dtype or self.dev.dtype).itemsize
        if storage not in self._grown and size <= storage.bytes:
            return self._view(storage.constant, storage.offset, shape, dtype)
        memory = self._grown.get(storage)
        if memory is None or memory.size < size:
            memory = self._grown[storage] = self.dev.zeros((aligned(size),), np.uint8)
            self._grown_views = {key: view for key, view in self._grown_views.items() if key[0] is not storage}
        key = storage, shape, dtype
        if key not in self._grown_views:
            self._grown_views[key] = self.dev.view(memory, 0, shape, dtype)
        return self._grown_views[key]

    def bind_layers(self, params: Parameters, original: Graph | None = None) -> None:
        """Replaces the layers by bound ones, and makes the calls of all steps. original: of the net that this one is a
        replica of; its layers keep their fields of the input buffer and their recurrent state here."""
        for node in self.graph.nodes:
            layer = node.layer = node.layer.bound(self.dev, params.views(node), self.context, original is not None)
            if isinstance(layer, Varying):
                layer.resize = functools.partial(self._resize, node)
        for step in self.compiled.forward:
            if isinstance(step.node.layer, Fusing):
                step.node.layer.fused_layers = [node.layer for node in step.fused]
        run = {step.node for step in (*self.compiled.forward, *self.compiled.backward)}  # others need no operations
        for node in self.graph.nodes:
            if node in run and not (original and isinstance(node.layer, Feeding)):
                self.build(node)
        if original:
            for node, other in zip(self.graph.nodes, original.nodes, strict=True):
                if isinstance(node.layer, Carrying):
                    node.layer.carried = carried(other.layer)
        self._make_calls()

    def build(self, node: Node) -> None:
        """Makes the operations of a layer, for the shapes that it has now."""
        layer, storages = node.layer, self.compiled.saved.get(node, {})
        layer.saved = {
            name: self._view_of(storages[name], tuple(shape), stored_dtype(dtype))
            for name, (shape, dtype) in saved_blobs(layer).items()
            if name in storages
        }
        layer.build(self.dev)
        self.built[node] += 1

    def _make_calls(self) -> None:
        """In place, for the pass that runs through them."""
        self.forward[:] = [self._forward_call(step) for step in self.compiled.forward]
        self.backward[:] = [call for step in self.compiled.backward for call in self._backward_calls(step)]

    def _forward_call(self, step: Step) -> tuple[Node, Callable]:
        x, y = [self.data[v] for v, _ in step.bottoms], [self.data[v] for v in (*step.tops, *step.inner_tops)]
        return step.node, functools.partial(step.node.layer.forward, x, y)

    def _backward_calls(self, step: Step) -> Iterator[tuple[Node, Callable]]:
        node, dx, adds = step.node, [], self.compiled.adds_gradients
        for i, (bottom, wanted) in enumerate(step.bottoms):
            if i in step.partial:
                dx.append(self._array(bottom, step.partial[i]))
            else:
                dx.append(self.diff.get(bottom) if wanted else None)
        if not adds:
            self._partial.update({(node, i): dx[i] for i in step.partial})
        x, y = [self.data[v] for v, _ in step.bottoms], [self.data[v] for v in step.tops]
        dy = [self._array(step.tops[0], s) for s in step.parts] or [self.diff.get(v) for v in step.tops]
        yield node, functools.partial(node.layer.backward, x, y, dy, dx)
        for i in step.partial if adds else ():
            yield node, functools.partial(self.dev.add, dx[i], self.diff[node.bottoms[i]])
        for value, storages in step.sums.items():
            parts = [self._array(value, s) for s in storages]
            total = self._total(len(parts), parts[0].dtype in HALF_DTYPES)
            yield node, functools.partial(total, *parts, self.diff[value])

    def _sum_of(self, count: int, half: bool) -> Callable:
        """The device's operation that sums ``count`` arrays. half: of 16-bit numbers."""
        names = tuple(f"g{i}" for i in range(count))
        return self.dev.map(Formula(" + ".join(names), names, halves=(*names, "out") if half else ()))

    def gradient(self, node: Node, i: int):
        """See ``Net.gradient``."""
        return self._partial.get((node, i), self.diff.get(node.bottoms[i])) if node.gradient_to[i] else None

    def _resize(self, node: Node, shapes: list[Shape]) -> list[Array]:
        """Gives a node's tops other shapes while the net runs, and so all that follows; returns the tops."""
        self.reshape_tops(node, shapes)
        self.reshape()
        return [self.data[top] for top in node.tops]

    def reshape(self) -> None:
        """Gives the outdated nodes that may follow, and those that depend on them, their shapes. Memory that is large
        enough stays where it is. Errors: a layer whose parameters would change their shape; a blob that is stored in
        another. That layer and those after it stay outdated."""
        try:
            for node in self.graph.nodes:
                if self._follows(node):
                    self._follow(node)
        finally:
            self.reshapes += 1
            self._make_calls()

    def needs_reshape(self) -> bool:
        """Whether ``reshape`` would change shapes."""
        return any(map(self._follows, self.outdated))

    def _follows(self, node: Node) -> bool:
        """Whether a node is outdated and may follow. Layers in place, and copies, always may: the versions of a blob
        have one shape."""
        in_place = not {top.name for top in node.tops}.isdisjoint(bottom.name for bottom in node.bottoms)
        return node in self.outdated and (self.following is None or node in self.following or in_place)

    def _follow(self, node: Node) -> None:
        """Gives a node the shapes that follow from its bottoms."""
        layer, params = node.layer, node.layer.param_blobs
        bottoms = tuple(b.shape for b in node.bottoms)
        layer.param_blobs, layer.saved_shapes = [], {}
        try:
            tops = layer.shapes(list(bottoms))
            actual, expected = ([list(p.shape) for p in blobs] for blobs in (layer.param_blobs, params))
        finally:
            layer.param_blobs = params
        if actual != expected:
            what = "its parameters change their shape with the data"
            raise layer.error(what, expected=expected, found=actual, outer=True)
        self.reshape_tops(node, tops)
        self._operations.take(layer, bottoms, functools.partial(self.build, node))
        self.outdated.discard(node)

    def reshape_tops(self, node: Node, shapes: list[Shape]) -> None:
        """Gives the tops of a node other shapes and memory for them. The readers of those that change are outdated."""
        for value, shape in zip(node.tops, shapes, strict=True):
            if value.shape == tuple(shape):
                continue
            self._check_change(value, shape)
            value.shape = tuple(shape)
            self.varied.add(value)
            self.outdated.update(reader for reader, _ in value.readers)
            for arrays, storages in ((self.data, self.compiled.data), (self.diff, self.compiled.diff)):
                if value in arrays:
                    arrays[value] = self._array(value, storages[value])

    def _check_change(self, value: Value, shape: Shape) -> None:
        """Errors: a value that is stored in another; another number of axes of an image."""
        layer = value.node.layer
        if value in self.compiled.data_slices or value in self.compiled.diff_slices:
            what = f'"{value.name}" changes its shape, and is stored within a Concat\'s top'
            raise layer.error(what, "top", value.top, remedy="give the Concat another bottom", outer=True)
        if value.channels_last and len(shape) != len(value.shape):
            what = f'"{value.name}" cannot have another number of axes'
            raise layer.error(what, "top", value.top, expected=len(value.shape), found=list(shape), outer=True)


class Operations:
    """The operations that layers made for the shapes that they had, so that going back to a shape makes none.

    They come with the arrays that the layer saved for these shapes, whose memory stays as long as they are kept.
    """

    MOST = 16  # shapes of a layer that are kept

    def __init__(self) -> None:
        self._made: dict[Any, dict[tuple[Shape, ...], dict[str, Any]]] = {}  # a layer's attributes after ``build``
        self._set: dict[Any, set[str]] = {}  # the names of those that ``build`` sets

    def take(self, layer: Any, shapes: tuple[Shape, ...], build: Callable[[], None]) -> None:
        """Sets what ``build`` sets in a layer for bottoms of these shapes, and calls it for new shapes only."""
        made, names, now = self._made.setdefault(layer, {}), self._set.setdefault(layer, set()), vars(layer)
        known = made.pop(shapes, None)
        if known is None:
            before = dict(now)
            build()
            names.update(name for name, value in now.items() if before.get(name, made) is not value)
            known = dict(now)
        else:
            now.update({name: known[name] for name in names if name in known})
        made[shapes] = known
        if len(made) > self.MOST:
            del made[next(iter(made))]
