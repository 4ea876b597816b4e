"""The learnable parameters of a net: one flat buffer of data and one of gradients, read and written by name."""

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..devices.protocol import Device
from ..devices.types import Array
from ..layers import Layer, ParameterSpec, Shape
from ..layers.base import fillers
from ..layers.base.layer import ParameterView
from ..layers.base.state import Adapting
from ..weights import Damaged, decode_blob
from .fused_updates import FusedGradient
from .nodes import Graph, Node, Parameter

log = logging.getLogger("caffelite")

PARAM_ALIGN = 16  # elements: each parameter starts on a cache line


class Parameters:
    """The learnable parameters of a net: ``data`` and ``diff`` are one flat buffer each, ``blobs`` and ``diffs`` the
    views, one a Parameter.

    borrowed: blobs of another net, by the index of the Parameter, that take no memory here. fused: the indices of those
    whose gradient the update computes: they follow the others in ``data``, and ``diff`` ends before them.
    ``fused_gradients``: theirs by index, which the net sets.
    """

    def __init__(
        self, graph: Graph, dev: Device, train: bool, seed: int, borrowed: dict[int, Array], fused: Collection[int] = ()
    ):
        self.parameters = graph.parameters
        self.fused_gradients: dict[int, FusedGradient] = {}
        count = range(len(self.parameters))
        stored = [i for i in count if i not in fused]
        sizes = [-(-math.prod(parameter.blob.shape) // PARAM_ALIGN) * PARAM_ALIGN for parameter in self.parameters]
        self.size, self.starts = 0, [0 for _ in count]
        for i in (*stored, *sorted(fused)):
            self.starts[i] = self.size
            self.size += 0 if i in borrowed else sizes[i]
        self.data = dev.zeros(self.size)
        self.diff = dev.zeros(self.size - sum(sizes[i] for i in fused)) if train else None
        self.blobs = [borrowed[i] if i in borrowed else self.cut(self.data, i) for i in count]
        owned = {i for i in stored if i not in borrowed} if train else ()
        self.diffs = [self.cut(self.diff, i) if i in owned else None for i in count]
        for i, parameter in enumerate(self.parameters):
            if i not in borrowed:
                rng = fillers.generator(seed, "filler", parameter.node.name, parameter.index)
                flat = self.blobs[i].reshape(-1)
                for start, values in _initial(parameter, rng):
                    dev.upload(flat[start : start + values.size], values)

    def cut(self, flat: Array, index: int) -> Array:
        """Parameter ``index``'s range of a flat buffer, in the parameter's shape."""
        shape = self.parameters[index].blob.shape
        start = self.starts[index]
        return flat[start : start + math.prod(shape)].reshape(shape)

    def gradient(self, index: int) -> Array | None:
        """The gradient of Parameter ``index``; computed where it is not stored, None where there is none."""
        fused = self.fused_gradients.get(index)
        return fused.computed() if fused else self.diffs[index]

    def views(self, node: Node) -> list[ParameterView]:
        """The parameters of a node, in its own shapes (PERMISSIVE sharing compares counts only)."""
        views = []
        for spec, ref in zip(node.layer.param_blobs, node.params, strict=True):
            blobs = (self.blobs[ref.owner], self.diffs[ref.owner])
            data, diff = (b if b is None or b.shape == spec.shape else b.reshape(spec.shape) for b in blobs)
            views.append(ParameterView(data, diff, ref.wanted))
        return views


def _initial(parameter: Parameter, rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """(start, values) of a parameter's initial values, flat and piece by piece. A shard has the values that it has in
    the whole parameter."""
    spec = parameter.blob
    shard = spec.shard
    if blobs := blobs_of_file(parameter.node.layer):
        yield 0, shard_of(blobs[parameter.index], spec).reshape(-1)
    elif shard is None:
        yield from fillers.pieces(spec.filler, spec.shape, rng)
    elif shard.axis:
        yield 0, shard_of(fillers.fill(spec.filler, shard.whole, rng), spec).reshape(-1)
    else:
        count = math.prod(spec.shape)
        first = shard.start * math.prod(shard.whole[1:])
        for start, values in fillers.pieces(spec.filler, shard.whole, rng):
            begin, end = max(start, first), min(start + values.size, first + count)
            if begin < end:
                yield begin - first, values[begin - start : end - start]


def blobs_of_file(layer: Layer) -> list[np.ndarray]:
    """The initial values that the net's file has for a layer's parameters, in place of its fillers' (``blobs``, as in
    Caffe); [] where it has none. Errors: CaffeliteError where they are not the parameters' in number or shape."""
    if not layer.spec.blobs:
        return []
    what = f'layer "{layer.name}" ({layer.spec.type}): its blobs'
    wholes = _wholes(layer)
    try:
        blobs: Sequence[np.ndarray | None]
        blobs = [decode_blob(memoryview(blob.SerializeToString())) for blob in layer.spec.blobs]
    except Damaged as damage:
        raise layer.locate.error(f"{what}: {damage}", "blobs") from None
    blobs = layer.adapted(blobs) if isinstance(layer, Adapting) else blobs
    if len(blobs) != len(wholes):
        expected = f"{len(wholes)}, one for each parameter, or none: then fillers set them"
        raise layer.locate.error(what, "blobs", expected=expected, found=len(blobs))
    values = []
    for i, (blob, shape) in enumerate(zip(blobs, wholes, strict=True)):
        if blob is None or not _same_shape(blob.shape, shape):
            stored = None if blob is None else list(blob.shape)
            raise layer.locate.error(what, "blobs", i, expected=list(shape), found=stored)
        values.append(blob.reshape(shape))
    return values


def _wholes(layer: Layer) -> list[Shape]:
    """The shapes of a layer's parameters, of divided ones before the division."""
    return [spec.shard.whole if spec.shard else spec.shape for spec in layer.param_blobs]


def shard_of(whole: np.ndarray, spec: ParameterSpec) -> np.ndarray:
    """The shard of a whole parameter's array that ``spec`` describes."""
    if spec.shard is None:
        return whole
    axis, start = spec.shard.axis, spec.shard.start
    return whole[(slice(None),) * axis + (slice(start, start + spec.shape[axis]),)]


def multipliers(parameter: Parameter) -> tuple[float, float]:
    """(lr_mult, decay_mult), 1 where unset."""
    lr_mult, decay_mult = (1.0 if m is None else m for m in (parameter.lr_mult, parameter.decay_mult))
    return lr_mult, decay_mult


def owns(graph: Graph, node: Node, i: int) -> bool:
    """Whether a layer's parameter is its own, not another layer's of the same name."""
    parameter = graph.parameters[node.params[i].owner]
    return parameter.node is node and parameter.index == i


def borrowed(graph: Graph, other: Graph) -> dict[int, Array]:
    """A bound graph's blobs for the learnable parameters of ``graph``, by layer name; one that differs in shape is an
    error."""
    theirs = {node.name: node.layer.params for node in other.nodes}
    blobs_of = {}
    for i, parameter in enumerate(graph.parameters):
        node, params = parameter.node, theirs.get(parameter.node.name, [])
        if parameter.index < len(params):
            blob = params[parameter.index].data
            if tuple(blob.shape) != tuple(parameter.blob.shape):
                what = f'parameter {parameter.index} of layer "{node.name}" differs between the nets'
                raise node.layer.locate.error(what, expected=list(blob.shape), found=list(parameter.blob.shape))
            blobs_of[i] = blob
    return blobs_of


@dataclass
class Loaded:
    """The result of loading a caffemodel: layers that received weights, layers of the file without a match, layers of
    the net that it lacks."""

    matched: list[str]
    skipped: list[str]
    missing: list[str]

    def log(self, source: str) -> None:
        """Logs what did not match: layers of the file as Caffe does, and with a warning layers of the net."""
        for name in self.skipped:
            log.info("Ignoring source layer %s", name)
        if self.missing:
            missing = ", ".join(self.missing)
            log.warning("%s has no weights for %s, which keep the values of their fillers", source, missing)


def layer_blobs(graph: Graph, dev: Device) -> Iterator[tuple[Node, list[np.ndarray]]]:
    """Every layer of a bound graph with its parameters as host arrays, as a caffemodel stores them."""
    for node in graph.nodes:
        if node.layer_index >= 0:  # no inserted copy
            yield node, [dev.download(p.data) for p in node.layer.params]


def load(graph: Graph, dev: Device, blobs: Mapping[str, Sequence[np.ndarray | None]], source: str) -> Loaded:
    """Copies parameters into a bound graph by layer name, of a divided one the shard; a shape that does not fit is an
    error, a name that is missing is reported.

    A blob that belongs to another layer may be left out (None, or the last ones lacking), as Caffe does in HDF5.
    """
    for node in graph.nodes:
        if node.params and node.name in blobs:
            _load_layer(graph, dev, node, blobs[node.name], source)
    return matches(graph, blobs)


def matches(graph: Graph, blobs: Mapping[str, Sequence[np.ndarray | None]]) -> Loaded:
    """Which layers of a graph, bound or not, the blobs of a file belong to."""
    matched = [node.name for node in graph.nodes if node.params and node.name in blobs]
    own = [n.name for n in graph.nodes if any(owns(graph, n, i) for i in range(len(n.params)))]
    missing = [name for name in own if name not in blobs]
    return Loaded(matched, sorted(set(blobs) - set(matched)), missing)


def _load_layer(graph: Graph, dev: Device, node: Node, blobs: Sequence[np.ndarray | None], source: str) -> None:
    """Checks all blobs of a layer, then copies them."""
    params, where = node.layer.params, node.layer.locate()
    blobs = node.layer.adapted(blobs) if isinstance(node.layer, Adapting) else blobs
    blobs = [*blobs, *[None] * sum(not owns(graph, node, i) for i in range(len(blobs), len(params)))]
    what = f'layer "{node.name}" ({node.layer.spec.type}): {source} does not fit'
    if len(blobs) != len(params):
        raise where.error(what, expected=f"{len(params)} blobs", found=len(blobs))
    wholes = _wholes(node.layer)
    for i, (shape, array) in enumerate(zip(wholes, blobs, strict=True)):
        if array is None:
            if owns(graph, node, i):
                raise where.error(what, expected=f"blob {i}", found="none")
        elif not _same_shape(array.shape, shape):
            shapes = {"expected": list(shape), "found": list(array.shape)}
            remedy = "rename the layer to initialize it from its fillers"
            raise where.error(f"{what}, blob {i}", remedy=remedy, **shapes)
    for param, spec, shape, array in zip(params, node.layer.param_blobs, wholes, blobs, strict=True):
        if array is not None:
            dev.upload(param.data, shard_of(array.reshape(shape), spec))


def _same_shape(stored: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Equal, or equal up to leading ones: old files store every blob with four axes."""
    trim = [tuple(s)[next((i for i, d in enumerate(s) if d != 1), len(s)) :] for s in (stored, wanted)]
    return trim[0] == trim[1]
