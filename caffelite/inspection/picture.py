"""Draws a net: boxes for layers, coloured by kind; in-place layers in the box of the layer below; shapes on the
edges."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from .. import caffelite_pb2 as pb
from ..net.graph import Graph, Node, Value
from ..net.partition.placement import Division, Placement
from . import counts
from .nets import times
from .placement import lay_out
from .scene import Box, Curve, Scene, Text, text_width

ROW, PAD, MARGIN, SIZE, SMALL = 24.0, 12.0, 28.0, 12.0, 10.5
# Kinds by the family's file: colour of the box, what the legend says
FAMILIES = {
    "data": ("#cbd2d9", "data"),
    "memory": ("#cbd2d9", "data"),
    "vision": ("#9fc5f8", "convolution"),
    "sliding": ("#9fc5f8", "convolution"),
    "dense": ("#c3b1f0", "inner product"),
    "recurrent": ("#c3b1f0", "recurrent"),
    "pooling": ("#a8dfb6", "pooling"),
    "activation": ("#fbd38d", "activation"),
    "layer": ("#fbd38d", "activation"),
    "powers": ("#fbd38d", "activation"),
    "dropout": ("#f0dcc0", "dropout"),
    "normalisation": ("#9fe0dc", "normalisation"),
    "score": ("#f7b6d2", "score"),
    "join": ("#e6e8a8", "join"),
    "eltwise": ("#e6e8a8", "join"),
}
LOSS, OTHER = ("#f5a3a3", "loss"), ("#e9edf2", "other")
# Of stages, in turn
STAGES = ("#9fc5f8", "#fbd38d", "#a8dfb6", "#f7b6d2", "#c3b1f0", "#e6e8a8", "#9fe0dc", "#f0b49a")
DIVIDED = "#2d3748"  # the mark of divided layers


@dataclass(frozen=True)
class Style:
    """How layers are coloured: by kind, or under a placement by stage, with a mark on layers that devices divide."""

    placement: Placement | None = None

    def colour(self, node: Node) -> tuple[str, str]:
        """The colour of a layer's row, and what the legend says."""
        if self.placement is None:
            return _family(node)
        stage = self.placement.layers[node.name].stage
        return STAGES[stage % len(STAGES)], f"stage {stage}"

    def mark(self, node: Node) -> str:
        """How the devices of a stage divide a layer; empty where each computes all of it."""
        if self.placement is None or self.placement.shards == 1:
            return ""
        division, shards = self.placement.layers[node.name].division, self.placement.shards
        return {Division.OUTPUTS: f"outputs / {shards}", Division.BATCH: f"samples / {shards}"}.get(division, "")

    def detail(self, node: Node) -> str:
        """The text on the right of a layer's row."""
        mark = self.mark(node)
        return f"{_detail(node)}  [{mark}]" if mark else _detail(node)


def picture(graph: Graph, placement: Placement | None = None) -> Scene:
    """The graph drawn from top to bottom. placement: colours the layers by stage and marks the divided ones."""
    style = Style(placement)
    stacks = _stacks(graph)
    stack_of = {node: stack[0] for stack in stacks for node in stack}
    sizes = {stack[0]: (max(_row_width(n, style) for n in stack), ROW * len(stack)) for stack in stacks}
    links = [
        (stack_of[v.node], stack_of[r], v)
        for n in graph.nodes
        for v in n.tops
        for r, _ in v.readers
        if stack_of[r] is not stack_of[v.node]
    ]
    links = list(dict.fromkeys(links))
    laid = lay_out(sizes, links)
    head = _head(graph, style)
    width = (
        max(laid.width, max(text_width(s.text, s.size, s.bold) + s.x for s in head if isinstance(s, Text)) - MARGIN)
        + 2 * MARGIN
    )
    top = 96.0
    left = (width - laid.width) / 2
    scene = Scene(width, laid.height + top + MARGIN, head)
    batch = counts.batch_of(graph)
    labels: list[Text] = []
    at_ends = ports(links, laid, left)
    named: set[Value] = set()
    uses = Counter(value for _, _, value in links)
    for number, (a, b, value) in enumerate(links):
        start, end = at_ends[number]
        stops = [(start, laid.boxes[a].y + laid.boxes[a].height + top)]
        for bend in laid.bends[number]:
            stops += [(bend.x + left, bend.y + top), (bend.x + left, bend.y + bend.height + top)]
        stops.append((end, laid.boxes[b].y + top - 6))
        scene.shapes.append(Curve(smooth(stops), arrow=True))
        if value not in named:
            named.add(value)
            (x0, y0), (x1, y1) = stops[:2]
            x, y = (x0, y0 + 16) if uses[value] > 1 else ((x0 + x1) / 2, (y0 + y1) / 2 + 4)
            labels.append(Text(x, y, _shape(value, batch), SMALL, anchor="middle", fill="#52606d", halo=True))
    for stack in stacks:
        box = laid.boxes[stack[0]]
        _draw(scene, style, stack, box.x + left - box.width / 2, box.y + top, box.width)
    scene.shapes += labels
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


def _family(node: Node) -> tuple[str, str]:
    if node.layer.loss:
        return LOSS
    return FAMILIES.get(type(node.layer).__module__.rpartition(".")[2], OTHER)


def _detail(node: Node) -> str:
    """The type and the main settings: kernel and stride, outputs."""
    layer, text = node.layer, node.layer.spec.type
    window = getattr(layer, "window", None)
    if getattr(layer.p, "global_pooling", False):
        text += " global"
    elif window is not None:
        text += f" {times(window.kernel)}" + (
            f" /{times(tuple(sorted(set(window.stride))))}" if set(window.stride) != {1} else ""
        )
    if text.startswith("Pooling"):
        text = text.replace("Pooling", pb.PoolingParameter.PoolMethod.Name(layer.p.pool).capitalize() + " pooling")
    outputs = getattr(layer.p, "num_output", 0) if layer.p is not None else 0
    return f"{text} → {outputs}" if outputs else text


def _row_width(node: Node, style: Style) -> float:
    return max(90.0, text_width(node.name, SIZE, bold=True) + text_width(style.detail(node), SMALL) + 3 * PAD)


def _draw(scene: Scene, style: Style, stack: list[Node], x: float, y: float, width: float) -> None:
    shapes = scene.shapes
    for i, node in enumerate(stack):
        colour, up = style.colour(node)[0], y + i * ROW
        first, last = i == 0, i == len(stack) - 1
        shapes.append(Box(x, up, width, ROW, colour, radius=5 if first or last else 0, layer=node.name))
        if len(stack) > 1 and (first or last):  # square where rows meet
            shapes.append(Box(x, up + (ROW / 2 if first else 0), width, ROW / 2, colour, layer=node.name))
        if style.mark(node):
            shapes.append(Box(x, up, 5, ROW, DIVIDED))
        shapes.append(Text(x + PAD, up + 16, node.name, SIZE, bold=True))
        shapes.append(Text(x + width - PAD, up + 16, style.detail(node), SMALL, anchor="end", fill="#3e4c59"))
    shapes.append(Box(x, y, width, ROW * len(stack), "none", "#7b8794", 5))


def _shape(value: Value, batch: int) -> str:
    """A blob's shape without the batch size, which is in the title."""
    return times(value.shape[1:] if value.shape[:1] == (batch,) else value.shape)


def ports(links: list, laid, left: float) -> dict[int, tuple[float, float]]:
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
            for place, name in enumerate(order):
                for i in bundles[name]:
                    ports[i][side] = left + box.x + (place - (len(order) - 1) / 2) * step
    return {i: (a, b) for i, (a, b) in ports.items()}


def _next(links: list, laid, i: int, side: int) -> float:
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


def _head(graph: Graph, style: Style) -> list[Box | Text | Curve]:
    """Title and legend."""
    parameters = sum(math.prod(p.blob.shape) for p in graph.parameters if p.index not in p.node.layer.statistics)
    what = (
        f"{pb.Phase.Name(graph.phase)}, batches of {counts.batch_of(graph)}, {len(graph.nodes)} layers, "
        f"{parameters:,} parameters"
    )
    if (placement := style.placement) is not None:
        parts = [
            f"{count} {noun}"
            for count, noun in (
                (placement.stages, "stages"),
                (placement.shards, "shards"),
                (placement.micro_batches, "micro-batches"),
            )
            if count > 1
        ]
        what += "; " + ", ".join(parts or ["one device"])
    shapes: list[Box | Text | Curve] = [
        Text(MARGIN, 36, graph.name or "a net", 18, bold=True),
        Text(MARGIN, 55, what, SIZE, fill="#52606d"),
    ]
    x = MARGIN
    for colour, name in dict.fromkeys(style.colour(n) for n in graph.nodes):
        shapes += [Box(x, 66, 12, 12, colour, "#7b8794", 3), Text(x + 17, 76, name, SMALL, fill="#52606d")]
        x += 17 + text_width(name, SMALL) + 14
    if any(style.mark(n) for n in graph.nodes):
        shapes += [Box(x, 66, 5, 12, DIVIDED), Text(x + 10, 76, "divided", SMALL, fill="#52606d")]
    return shapes
