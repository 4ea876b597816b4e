"""Layouts and dtypes of blobs, and the copies between them.

A layer that prefers channels_last uses that layout for its bottoms and tops; one that follows uses the
format of its first blob; all others use Caffe's layout. The same applies to 16-bit dtypes.
"""

from collections.abc import Mapping

from .. import caffelite_pb2 as pb
from ..devices.inference_ops import Interleave
from ..devices.protocol import Device
from ..devices.traits import DeviceTraits
from ..errors import NOWHERE, CaffeliteError
from ..layers import CAFFE_FORMAT, Format, Layer, LayerConfig, Shape
from ..layers.base.feeding import feeding
from ..layers.base.image_layout import image_layout
from .nodes import Graph, Node, Value, changed, replaced


class Copy(Layer):
    """Copies a blob from one format into another. ``forth``: to channels_last, or to 16-bit numbers; else back."""

    verb = ""
    backward_reads_bottoms = backward_reads_tops = False

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(pb.LayerParameter(name=f"{value.name} {self.verb}", type=self.type), phase, NOWHERE)
        self.forth = forth

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return bottoms


class Transposition(Copy):
    """y (N, H, W, C) = x (N, C, H, W), or back; a view where both are the same bytes."""

    type = "Transposition"
    verb = "transposed"

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(value, forth, phase)
        self.shapes([value.shape])
        self.view = self.same_bytes

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, *spatial = bottoms[0]
        self.split = n, c, spatial[0] * spatial[1]
        if self.view and not self.same_bytes:
            what = f'blob "{self.name.removesuffix(f" {self.verb}")}" cannot change its shape while the net runs'
            raise CaffeliteError(what, found=list(bottoms[0]))
        return bottoms

    @property
    def same_bytes(self) -> bool:
        """Whether both layouts have the numbers in the same order."""
        return self.split[1] == 1 or self.split[2] == 1

    def build(self, dev: Device) -> None:
        n, c, p = self.split
        self.plain, self.swapped = (n, c, p), (n, p, c)
        self.op = dev.transpose
        self._views: dict[bool, tuple] = {}  # by direction: the arrays of the last run, each with its view

    def _run(self, source, target, forth: bool) -> None:
        if self.view:
            return
        views = self._views.get(forth)
        if views is None or views[0] is not source or views[1] is not target:
            shapes = (self.plain, self.swapped) if forth else (self.swapped, self.plain)
            views = self._views[forth] = source, target, source.reshape(shapes[0]), target.reshape(shapes[1])
        self.op(views[2], views[3])

    def inference_operation(self) -> object | None:
        if self.view or not self.forth:
            return super().inference_operation()
        return Interleave(*self.split)

    def forward(self, x: list, y: list) -> None:
        self._run(x[0], y[0], self.forth)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._run(dy[0], dx[0], not self.forth)


class Rounding(Copy):
    """y of 16-bit numbers = x of float32 numbers, or back; both in one layout."""

    type = "Rounding"
    verb = "rounded"

    def build(self, dev: Device) -> None:
        round_, widen = dev.conversions()
        self.op, self.back = (round_, widen) if self.forth else (widen, round_)

    def forward(self, x: list, y: list) -> None:
        self.op(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.back(dy[0], dx[0])


IMAGE_AXES = 4


def choose_layouts(graph: Graph, traits: DeviceTraits) -> dict[Node, Format]:
    """The format in which each layer takes its images. All stay as Caffe has them where the convolutions have, on
    average, less than ``traits.little_work``: there the copies would cost more than the layout saves."""
    preferring = [node for node in graph.nodes if image_layout(node.layer).prefers_channels_last(traits)]
    work = sum(
        node.layer.multiply_adds([b.shape for b in node.bottoms], [t.shape for t in node.tops]) for node in preferring
    )
    varied = graph.varied()
    if not preferring or work < traits.little_work * len(preferring) or varied & set(preferring):
        return dict.fromkeys(graph.nodes, CAFFE_FORMAT)
    preferred = Format(True, traits.image_dtype if traits.half_images else None)
    chosen: dict[Node, Format] = {}
    for node in graph.nodes:
        first = next((chosen[b.node] for b in node.bottoms if len(b.shape) == IMAGE_AXES), CAFFE_FORMAT)
        layer = image_layout(node.layer)
        if layer.prefers_channels_last(traits):
            chosen[node] = preferred
        elif layer.follows_layout and first.channels_last and node not in varied:
            chosen[node] = first if layer.follows_precision else Format(True)
        else:
            chosen[node] = CAFFE_FORMAT
    for node in graph.feeds if traits.writes_pixels else ():
        readers = [reader for reader, _ in node.tops[0].readers]
        images = [top for top in node.tops if len(top.shape) == IMAGE_AXES]
        if feeding(node.layer).converts_pixels and images == node.tops[:1] and node not in varied:
            if readers and all(chosen[reader] == preferred for reader in readers):
                chosen[node] = preferred
    return chosen


class Copies:
    """The copies of blobs in other formats, made where they are first read."""

    def __init__(self, phase: int):
        self.phase = phase
        self.order: list[Node] = []  # all nodes of the graph that is built, the copies among them
        self._made: dict[tuple[Value, bool], Value] = {}  # by value, and whether one step further from Caffe's format

    def stored_as(self, value: Value, wanted: Format) -> Value:
        """``value`` in the format ``wanted``: itself, or a copy. Numbers are rounded only where they are
        channels_last."""
        if len(value.shape) != IMAGE_AXES or value.format == wanted:
            return value
        current = value.format
        forth = (wanted.channels_last, wanted.dtype is not None) > (current.channels_last, current.dtype is not None)
        if (value, forth) not in self._made:
            self._made[value, forth] = self._copy(value, forth, wanted)
        return self.stored_as(self._made[value, forth], wanted)

    def _copy(self, value: Value, forth: bool, wanted: Format) -> Value:
        rounds = value.channels_last if forth else value.dtype is not None
        layer = (Rounding if rounds else Transposition)(value, forth, self.phase)
        node = Node(-1, -1, layer, [value], loss_weights=[0.0], gradient_to=[False])
        into = Format(forth or rounds, wanted.dtype if forth and rounds else None)
        node.tops = [Value(value.name, value.shape, node, 0, format=into)]
        value.readers.append((node, 0))
        self.order.append(node)
        return node.tops[0]


def insert_copies(
    graph: Graph, formats: Mapping[Node, Format], traits: DeviceTraits
) -> tuple[Graph, dict[Node, Node], dict[Value, Value]]:
    """Returns a new graph in these formats, with copies where they differ, and configured layers;
    also maps from the nodes and values of ``graph`` to the new ones."""
    nodes: dict[Node, Node] = {}
    values: dict[Value, Value] = {}
    copies = Copies(graph.phase)
    for node in graph.nodes:
        form = formats[node]
        new = nodes[node] = node.unwired(changed(node.layer, config=LayerConfig(traits, form)))
        for i, bottom in enumerate(node.bottoms):
            value = copies.stored_as(values[bottom], form)
            value.readers.append((new, i))
            new.bottoms.append(value)
            if node.gradient_to[i]:
                _pass_gradient(value, values[bottom])
        for top in node.tops:
            own = form if len(top.shape) == IMAGE_AXES else CAFFE_FORMAT
            values[top] = Value(top.name, top.shape, new, top.top, [], top.gradient, own)
            new.tops.append(values[top])
        copies.order.append(new)
    by_name = {name: values[value] for name, value in graph.values.items()}
    compiled = replaced(graph, nodes, by_name, copies.order)
    restore_outputs(compiled, copies)
    for index, node in enumerate(compiled.nodes):
        node.index = index
    return compiled, nodes, values


def restore_outputs(graph: Graph, copies: Copies) -> None:
    """Copies outputs back into Caffe's format, and blobs with a loss weight into the net's dtype."""
    outputs = [value for value in graph.outputs if value.channels_last]
    losses = [value for value, _ in graph.losses if value.dtype is not None and value not in outputs]
    for value in (*outputs, *losses):
        plain = copies.stored_as(value, CAFFE_FORMAT)
        if value in outputs and graph.values[value.name] is value:  # no layer wrote over it
            graph.values[value.name] = plain
        if value.gradient:
            _pass_gradient(plain, value)
        plain.node.loss_weights, value.node.loss_weights[value.top] = [value.node.loss_weights[value.top]], 0.0


def _pass_gradient(copied: Value, value: Value) -> None:
    """Marks the copies from ``copied`` down to their source value: they pass the gradient to it."""
    while copied is not value:
        copied.gradient = copied.node.backward = copied.node.gradient_to[0] = True
        copied = copied.node.bottoms[0]
