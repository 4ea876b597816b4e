"""Compiles a graph for a device: layouts, dtypes, fusions, the order of steps and the memory that they take.

Compiling needs the traits of a device, and no device. It changes neither the graph nor its layers, so that one graph
can be compiled for several devices. A net that runs, and everything that predicts what it does, use the same result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..devices.traits import DeviceTraits
from ..layers.base.feeding import feeding
from . import fusion, layout, slices
from .fused_updates import fused_updates
from .layout import Transposition
from .memory import DataMemory, GradientMemory, Storages
from .nodes import Graph, Node, Value
from .packing import Storage, pack
from .slices import Slice
from .steps import ITEMSIZES, Lifetimes, Step


@dataclass(frozen=True)
class Options:
    """keep: every blob, its gradient and what a layer saves for backward keeps separate memory, so that it can be read
    after the pass, and any layers can run again; nothing is fused then. A view has the memory of its bottom. fuse:
    layers run as part of others where they can. fixed_shapes: False: ``Net.reshape`` may give blobs any shape.
    inference: weights seldom change; a net that never runs backward folds them and packs them when they do.
    fused_passes: those of an iteration, where updates may compute gradients of weights; 0: all gradients are stored.
    stored: blobs, by name, that have their values after a forward pass, as outputs do."""

    keep: bool = False
    fuse: bool = True
    fixed_shapes: bool = True
    inference: bool = False
    fused_passes: int = 0
    stored: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class CompiledNet:
    """A net compiled for a device with ``traits``; immutable.

    ``graph``: separate copies of nodes and values, with formats and inserted copies; its layers have their ``config``.
    ``nodes`` and ``values`` map those of the graph that was compiled to these. ``forward`` and ``backward``: the steps
    in order.
    ``data`` and ``diff`` map values to storages, ``saved`` nodes to {name: storage}; ``data_slices`` and
    ``diff_slices``: where values are stored within the storage of a wider one. ``starts``: (value, weight) of gradients
    that are filled before each backward pass, ``constants`` of those filled once. ``refused_in_place``: layers with a
    request for in-place that would overwrite values that are still needed. ``adds_gradients``: gradients of one value
    are added as they are computed. ``fused_updates``: parameters whose gradient the update computes. ``arena`` and
    ``constant_bytes``: bytes of all storages.
    """

    graph: Graph
    traits: DeviceTraits
    options: Options
    nodes: Mapping[Node, Node]
    values: Mapping[Value, Value]
    forward: tuple[Step, ...]
    backward: tuple[Step, ...]
    data: Mapping[Value, Storage]
    diff: Mapping[Value, Storage]
    saved: Mapping[Node, Mapping[str, Storage]]
    data_slices: Mapping[Value, Slice]
    diff_slices: Mapping[Value, Slice]
    starts: tuple[tuple[Value, float], ...]
    constants: tuple[tuple[Value, float], ...]
    refused_in_place: tuple[str, ...]
    adds_gradients: bool
    fused_updates: frozenset[int]
    arena: int
    constant_bytes: int


def compile(graph: Graph, traits: DeviceTraits, options: Options = Options()) -> CompiledNet:
    """Compiles a graph for devices of ``traits``."""
    own, nodes, values = layout.insert_copies(graph, layout.choose_layouts(graph, traits), traits)
    if not options.fixed_shapes:
        for node in own.nodes:
            if isinstance(node.layer, Transposition):
                node.layer.view = False
    fuses = options.fuse and not options.keep
    prepares = options.inference and traits.prepares_convolutions and not any(node.backward for node in own.nodes)
    stored = frozenset(own.values[name] for name in options.stored)
    fusions = fusion.fuse(own, prepares, stored, options.fixed_shapes) if fuses else fusion.Fusions()
    filled_once = {v for n in own.feeds for v in n.tops if feeding(n.layer).filled_once}
    lifetimes = Lifetimes(own, fusions, options.keep, filled_once | stored | set(own.outputs))

    def itemsize(dtype: str | None) -> int:
        return traits.itemsize if dtype is None else ITEMSIZES[dtype]

    storages = Storages(itemsize)
    in_tops = slices.store_in_tops(own, lifetimes, itemsize) if fuses else {}
    data = DataMemory(storages, lifetimes, in_tops, filled_once, constant_gradients(own))
    forward, fused = [], fusions.fused()
    for node in own.nodes:
        if node not in fused:
            forward.append(Step(node, fusions.chains.get(node, ()), fusions.summands.get(node)))
            data.store_tops(forward[-1])
            chain = fusions.chains.get(node, ())
            for member in (node, *(m for m in chain if m.backward and m not in fusions.backward_in)):
                data.store_saved(member, fuses, node.index)
    sums = traits.sums_gradients and fuses
    gradients = GradientMemory(own, storages, lifetimes, data, fuses, sums)
    gradients.store()
    constant_bytes = _place_constants([gradients.diff[v] for v, _ in gradients.constants])
    arena = pack(storages.all)
    own.seal()
    for item in (*storages.all, *gradients.diff.values(), *forward, *gradients.steps):
        item.seal()
    return CompiledNet(
        graph=own,
        traits=traits,
        options=options,
        nodes=MappingProxyType(nodes),
        values=MappingProxyType(values),
        forward=tuple(forward),
        backward=tuple(gradients.steps),
        data=MappingProxyType(data.data),
        diff=MappingProxyType(gradients.diff),
        saved=MappingProxyType({node: MappingProxyType(saved) for node, saved in data.saved.items()}),
        data_slices=MappingProxyType(data.slices),
        diff_slices=MappingProxyType(gradients.slices),
        starts=tuple(gradients.starts),
        constants=tuple(gradients.constants),
        refused_in_place=tuple(data.refused_in_place),
        adds_gradients=not sums,
        fused_updates=fused_updates(own, traits, 0 if options.keep else options.fused_passes),
        arena=arena,
        constant_bytes=constant_bytes,
    )


def constant_gradients(graph: Graph) -> set[Value]:
    """The values where backward starts and to which no layer adds a gradient: theirs never changes."""
    starts = {v for v, _ in graph.loss_starts if not v.node.layer.view}
    return {v for v in starts if not any(r.gradient_to[i] for r, i in v.readers)}


def _place_constants(storages: list[Storage]) -> int:
    """Gives constants their offsets; returns their bytes."""
    end = 0
    for storage in storages:
        storage.offset = end
        end += storage.bytes
    return end
