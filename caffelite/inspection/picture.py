"""Draws a net: boxes for layers, colored by kind; in-place layers in the box of the layer below; shapes, or the names
of blobs, on the edges."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import caffelite_pb2 as pb
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.layer import Layer
from ..net.graph import Graph, Node, Value
from ..net.partition.placement import Division, Placement
from .nets import times
from .placement import lay_out
from .scene import Box, Curve, Scene, Text, text_width

ROW, PAD, MARGIN, TOP, SIZE, SMALL = 24.0, 12.0, 28.0, 96.0, 12.0, 10.5  # TOP: the height of title and legend
# Kinds by the module of a type: color of the box, what the legend says
FAMILIES = {
    **dict.fromkeys(("convolution", "crop", "im2col"), ("#9fc5f8", "convolution")),
    **dict.fromkeys(("inner_product", "embed"), ("#c3b1f0", "inner product")),
    "recurrent": ("#c3b1f0", "recurrent"),
    **dict.fromkeys(("pooling", "spp"), ("#a8dfb6", "pooling")),
    **dict.fromkeys(("activation", "relu6", "sparsify"), ("#fbd38d", "activation")),
    "lrn_mvn": ("#9fe0dc", "normalization"),
    **dict.fromkeys(("softmax", "accuracy"), ("#f7b6d2", "score")),
    **dict.fromkeys(("concat_slice", "eltwise"), ("#e6e8a8", "join")),
}
DATA = ("#cbd2d9", "data")
LOSS, OTHER = ("#f5a3a3", "loss"), ("#e9edf2", "other")
# Of stages, in turn
STAGES = ("#9fc5f8", "#fbd38d", "#a8dfb6", "#f7b6d2", "#c3b1f0", "#e6e8a8", "#9fe0dc", "#f0b49a")
DIVIDED = "#2d3748"  # the mark of divided layers


@dataclass(frozen=True)
class Row:
    """What the picture shows of a layer. kind: the text of the legend for its color; mark: how the devices of a stage
    divide it; empty where each computes all of it."""

    name: str
    detail: str
    color: str
    kind: str
    mark: str = ""

    @property
    def text(self) -> str:
        return f"{self.detail}  [{self.mark}]" if self.mark else self.detail

    @property
    def width(self) -> float:
        return max(90.0, text_width(self.name, SIZE, bold=True) + text_width(self.text, SMALL) + 3 * PAD)


Link = tuple[Any, Any, Any]  # from a box to another one, and the blob


def picture(graph: Graph, placement: Placement | None = None) -> Scene:
    """The graph drawn from top to bottom. placement: colors the layers by stage and marks the divided ones."""
    batch = graph.batch_size
    stacks = _stacks(graph)
    box_of = {node: stack[0] for stack in stacks for node in stack}
    links = dict.fromkeys(
        (box_of[value.node], box_of[reader], value)
        for node in graph.nodes
        for value in node.tops
        for reader, _ in value.readers
        if box_of[reader] is not box_of[value.node]
    )
    parameters = sum(math.prod(p.blob.shape) for p in graph.parameters if not p.blob.statistic)
    subtitle = f"{pb.Phase.Name(graph.phase)}, batches of {batch}, {len(graph.nodes)} layers, {parameters:,} parameters"
    if placement is not None:
        counted = (
            (placement.stages, "stages"),
            (placement.shards, "shards"),
            (placement.micro_batches, "micro-batches"),
        )
        subtitle += "; " + (", ".join(f"{count} {noun}" for count, noun in counted if count > 1) or "one device")
    rows = {node: _node_row(node, placement) for node in graph.nodes}
    boxes = {stack[0]: [rows[node] for node in stack] for stack in stacks}
    return _drawn(
        graph.name, subtitle, rows.values(), boxes, list(links), {link[2]: _shape(link[2], batch) for link in links}
    )


def message_picture(net: pb.NetParameter, phase: int | None = None, rates: bool = False) -> Scene:
    """A net drawn from its message alone, without shapes: layers of unknown types too. phase: those that its rules
    retain; None: all. rates: shows lr_mult."""
    layers = [layer for layer in net.layer if phase is None or _in_phase(layer, phase)]
    stacks, links = _wire(layers)
    rows = [Row(each.name, _message_detail(each, rates), *_family(REGISTRY.get(each.type))) for each in layers]
    prefix = f"{pb.Phase.Name(phase)}, " if phase in (pb.TRAIN, pb.TEST) else ""
    boxes = {first: [rows[i] for i in stack] for first, stack in stacks.items()}
    names = {name: name for _, _, name in links}
    return _drawn(net.name, f"{prefix}{len(layers)} layers", rows, boxes, links, names)


def _drawn(
    title: str,
    subtitle: str,
    rows: Iterable[Row],
    boxes: Mapping[Any, Sequence[Row]],
    links: Sequence[Link],
    labels: Mapping[Any, str],
) -> Scene:
    """The scene. boxes: the layers of each box; labels: the text of each blob, drawn once at the box that makes it."""
    laid = lay_out({key: (max(row.width for row in stack), ROW * len(stack)) for key, stack in boxes.items()}, links)
    head = _head(title or "a net", subtitle, list(rows))
    widest = max(text_width(s.text, s.size, s.bold) + s.x for s in head if isinstance(s, Text))
    width = max(laid.width, widest - MARGIN) + 2 * MARGIN
    left = (width - laid.width) / 2
    scene = Scene(width, laid.height + TOP + MARGIN, head)
    texts: dict[tuple[Any, Any], Text] = {}
    uses = Counter((box, blob) for box, _, blob in links)
    ends = ports(links, laid, left)
    for i, (a, b, blob) in enumerate(links):
        start, end = ends[i]
        stops = [(start, laid.boxes[a].y + laid.boxes[a].height + TOP)]
        for bend in laid.bends[i]:
            stops += [(bend.x + left, bend.y + TOP), (bend.x + left, bend.y + bend.height + TOP)]
        stops.append((end, laid.boxes[b].y + TOP - 6))
        scene.shapes.append(Curve(smooth(stops), arrow=True))
        (x0, y0), (x1, y1) = stops[:2]
        x, y = (x0, y0 + 16) if uses[a, blob] > 1 else ((x0 + x1) / 2, (y0 + y1) / 2 + 4)
        texts.setdefault((a, blob), Text(x, y, labels[blob], SMALL, anchor="middle", fill="#52606d", halo=True))
    for key, stack in boxes.items():
        box = laid.boxes[key]
        _draw_box(scene, stack, box.x + left - box.width / 2, box.y + TOP, box.width)
    scene.shapes += texts.values()
    return scene


def _stacks(graph: Graph) -> list[list[Node]]:
    """Layers, each with those that work in place on its top and read it alone."""
    stacks: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if (
            len(node.bottoms) == len(node.tops) == 1
            and node.bottoms[0].name == node.tops[0].name
            and len(node.bottoms[0].readers) == 1
        ):
            below = node.bottoms[0].node
            if len(below.tops) == 1:
                stacks[below].append(node)
                stacks[node] = stacks[below]
                continue
        stacks[node] = [node]
    return list({id(stack): stack for stack in stacks.values()}.values())


def _in_phase(layer: pb.LayerParameter, phase: int) -> bool:
    """Whether the rules of a layer retain it in a phase; they may also name a level or stages."""
    phases = [rule.phase for rule in (layer.include or layer.exclude) if rule.HasField("phase")]
    if not phases:
        return True
    return (phase in phases) == bool(layer.include)


def _wire(layers: Sequence[pb.LayerParameter]) -> tuple[dict[int, list[int]], list[tuple[int, int, str]]]:
    """Layers as boxes, by the index of the first one: each with those that work in place on it; and (from, to, blob)
    between boxes. The blobs that the net names as inputs come from nowhere."""
    stacks: dict[int, list[int]] = {}
    box_of: dict[int, int] = {}
    makers: dict[str, list[int]] = {}
    links: dict[tuple[int, int, str], None] = {}
    for i, layer in enumerate(layers):
        below = {box_of[m] for name in layer.bottom for m in makers.get(name, ())}
        in_place = list(layer.bottom) == list(layer.top) and len(layer.top) == 1 and len(below) == 1
        box_of[i] = below.pop() if in_place else i
        stacks.setdefault(box_of[i], []).append(i)
        if in_place:
            continue
        for name in layer.bottom:
            links |= {(box_of[m], i, name): None for m in makers.get(name, ()) if box_of[m] != i}
        for name in layer.top:  # a data layer for each phase makes the same blobs
            others = makers.get(name, []) if not layer.bottom else []
            makers[name] = [*others, i]
    return stacks, list(links)


def _family(layer_type: type[Layer] | None) -> tuple[str, str]:
    if layer_type is None:
        return OTHER
    if issubclass(layer_type, Feeding):
        return DATA
    return LOSS if layer_type.loss else FAMILIES.get(layer_type.__module__.rpartition(".")[2], OTHER)


def _node_row(node: Node, placement: Placement | None) -> Row:
    if placement is None:
        color, kind = LOSS if node.layer.loss else _family(type(node.layer))
        return Row(node.name, _detail(node), color, kind)
    layer, shards = placement.layers[node.name], placement.shards
    marks = {Division.OUTPUTS: f"outputs / {shards}", Division.BATCH: f"samples / {shards}"} if shards > 1 else {}
    color = STAGES[layer.stage % len(STAGES)]
    return Row(node.name, _detail(node), color, f"stage {layer.stage}", marks.get(layer.division, ""))


def _detail(node: Node) -> str:
    layer, text = node.layer, node.layer.spec.type
    if isinstance(layer.p, pb.PoolingParameter):
        text = f"{_method(layer.p)} pooling"
    window = getattr(layer, "window", None)
    if getattr(layer.p, "global_pooling", False):
        text += " global"
    elif window is not None:
        text += f" {times(window.kernel)}" + (
            f" /{times(tuple(sorted(set(window.stride))))}" if set(window.stride) != {1} else ""
        )
    outputs = getattr(layer.p, "num_output", 0) if layer.p is not None else 0
    return f"{text} → {outputs}" if outputs else text


def _method(p: pb.PoolingParameter) -> str:
    """Max, Ave or Stochastic; a mean without padding is an Ave too."""
    return pb.PoolingParameter.PoolMethod.Name(p.pool).partition("_")[0].capitalize()


def _message_detail(layer: pb.LayerParameter, rates: bool) -> str:
    text, field = layer.type, REGISTRY[layer.type].field if layer.type in REGISTRY else ""
    settings = getattr(layer, field) if field else None
    if isinstance(settings, pb.PoolingParameter):
        text = f"{_method(settings)} pooling"
    sizes = getattr(settings, "kernel_size", ())
    sizes = tuple(size for size in ([sizes] if isinstance(sizes, int) else sizes) if size)
    text += " " + times(sizes) if sizes else ""
    text += f" → {outputs}" if (outputs := getattr(settings, "num_output", 0)) else ""
    if rates and layer.param:
        text += "  lr " + ", ".join(f"{param.lr_mult:g}" for param in layer.param)
    return text


def _draw_box(scene: Scene, stack: Sequence[Row], x: float, y: float, width: float) -> None:
    shapes = scene.shapes
    for i, row in enumerate(stack):
        top = y + i * ROW
        first, last = i == 0, i == len(stack) - 1
        shapes.append(Box(x, top, width, ROW, row.color, radius=5 if first or last else 0, layer=row.name))
        if len(stack) > 1 and (first or last):  # square where rows meet
            shapes.append(Box(x, top + (ROW / 2 if first else 0), width, ROW / 2, row.color, layer=row.name))
        if row.mark:
            shapes.append(Box(x, top, 5, ROW, DIVIDED))
        shapes.append(Text(x + PAD, top + 16, row.name, SIZE, bold=True))
        shapes.append(Text(x + width - PAD, top + 16, row.text, SMALL, anchor="end", fill="#3e4c59"))
    shapes.append(Box(x, y, width, ROW * len(stack), "none", "#7b8794", 5))


def _shape(value: Value, batch: int) -> str:
    """A blob's shape without the batch size, which is in the title."""
    return times(value.shape[1:] if value.shape[:1] == (batch,) else value.shape)


def ports(links: Sequence[Link], laid, left: float) -> dict[int, tuple[float, float]]:
    """The x at which each edge leaves and enters a box: distributed along the box, in the order of the other ends. All
    edges of a blob leave at one x."""
    ports: dict[int, list[float]] = {i: [0.0, 0.0] for i in range(len(links))}
    for side in (0, 1):
        groups: dict[object, dict[object, list[int]]] = {}
        for i, link in enumerate(links):
            groups.setdefault(link[side], {}).setdefault(link[2] if side == 0 else i, []).append(i)
        for key, bundles in groups.items():
            box = laid.boxes[key]
            near = {name: sum(_next(links, laid, i, side) for i in ones) / len(ones) for name, ones in bundles.items()}
            order = sorted(bundles, key=near.__getitem__)
            step = min(26.0, box.width * 0.7 / max(len(order), 1))
            for position, name in enumerate(order):
                for i in bundles[name]:
                    ports[i][side] = left + box.x + (position - (len(order) - 1) / 2) * step
    return {i: (a, b) for i, (a, b) in ports.items()}


def _next(links: Sequence[Link], laid, i: int, side: int) -> float:
    """The x of an edge's first point after its start (side 0), or of its last point before its end (side 1)."""
    bends = laid.bends[i]
    return (bends[-side].x) if bends else laid.boxes[links[i][1 - side]].x


def smooth(stops: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Cubic curves through points, vertical at each point."""
    points = [stops[0]]
    for (x0, y0), (x1, y1) in zip(stops, stops[1:], strict=False):
        middle = (y0 + y1) / 2
        points += [(x0, middle), (x1, middle), (x1, y1)]
    return points


def _head(title: str, subtitle: str, rows: Sequence[Row]) -> list[Box | Text | Curve]:
    shapes: list[Box | Text | Curve] = [
        Text(MARGIN, 36, title, 18, bold=True),
        Text(MARGIN, 55, subtitle, SIZE, fill="#52606d"),
    ]
    x = MARGIN
    for color, kind in dict.fromkeys((row.color, row.kind) for row in rows):
        shapes += [Box(x, 66, 12, 12, color, "#7b8794", 3), Text(x + 17, 76, kind, SMALL, fill="#52606d")]
        x += 17 + text_width(kind, SMALL) + 14
    if any(row.mark for row in rows):
        shapes += [Box(x, 66, 5, 12, DIVIDED), Text(x + 10, 76, "divided", SMALL, fill="#52606d")]
    return shapes
