"""Draws a net from its message alone, without shapes: all its layers, those of unknown types too."""

from __future__ import annotations

from collections.abc import Sequence

from .. import caffelite_pb2 as pb
from ..layers import REGISTRY
from .picture import FAMILIES, LOSS, MARGIN, OTHER, PAD, ROW, SIZE, SMALL, ports, smooth
from .placement import lay_out
from .scene import Box, Curve, Scene, Text, text_width

TOP = 96.0  # height of title and legend


def picture(net: pb.NetParameter, phase: int | None = None, rates: bool = False) -> Scene:
    """The layers of a net from top to bottom. phase: those that its rules keep; None: all. rates: shows lr_mult."""
    layers = [layer for layer in net.layer if phase is None or _kept(layer, phase)]
    stacks, links = _wire(net, layers)
    sizes = {at: (max(_width(layers[i], rates) for i in stack), ROW * len(stack)) for at, stack in stacks.items()}
    laid = lay_out(sizes, links)
    head = _head(net, layers, phase)
    widest = max((text_width(t.text, t.size, t.bold) + t.x for t in head if isinstance(t, Text)), default=0)
    width = max(laid.width, widest - MARGIN) + 2 * MARGIN
    left = (width - laid.width) / 2
    scene = Scene(width, laid.height + TOP + MARGIN, head)
    labels: list[Text] = []
    at_ends, named = ports(links, laid, left), set()
    for number, (a, b, blob) in enumerate(links):
        start, end = at_ends[number]
        stops = [(start, laid.boxes[a].y + laid.boxes[a].height + TOP)]
        for bend in laid.bends[number]:
            stops += [(bend.x + left, bend.y + TOP), (bend.x + left, bend.y + bend.height + TOP)]
        stops.append((end, laid.boxes[b].y + TOP - 6))
        scene.shapes.append(Curve(smooth(stops), arrow=True))
        if (a, blob) not in named:
            named.add((a, blob))
            x, y = stops[0]
            labels.append(Text(x, y + 16, blob, SMALL, anchor="middle", fill="#52606d", halo=True))
    for at, stack in stacks.items():
        box = laid.boxes[at]
        _draw(scene, [layers[i] for i in stack], box.x + left - box.width / 2, box.y + TOP, box.width, rates)
    scene.shapes += labels
    return scene


def _kept(layer: pb.LayerParameter, phase: int) -> bool:
    """Whether the rules of a layer keep it in a phase; they may also name a level or stages."""
    phases = [rule.phase for rule in (layer.include or layer.exclude) if rule.HasField("phase")]
    if not phases:
        return True
    return (phase in phases) == bool(layer.include)


def _wire(
    net: pb.NetParameter, layers: Sequence[pb.LayerParameter]
) -> tuple[dict[int, list[int]], list[tuple[int, int, str]]]:
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


def _family(layer: pb.LayerParameter) -> tuple[str, str]:
    """The colour of a layer, and what the legend says."""
    kind = REGISTRY.get(layer.type)
    if kind is None:
        return OTHER
    return LOSS if kind.loss else FAMILIES.get(kind.__module__.rpartition(".")[2], OTHER)


def _detail(layer: pb.LayerParameter, rates: bool) -> str:
    """The type and the main settings of a layer."""
    text = layer.type
    if layer.type == "Pooling":
        text = f"{pb.PoolingParameter.PoolMethod.Name(layer.pooling_param.pool).capitalize()} pooling"
        text += f" {layer.pooling_param.kernel_size}" if layer.pooling_param.kernel_size else ""
    elif layer.type in ("Convolution", "Deconvolution"):
        sizes = layer.convolution_param.kernel_size
        text += " " + "×".join(map(str, sizes)) if sizes else ""
        text += f" → {layer.convolution_param.num_output}"
    elif layer.type == "InnerProduct":
        text += f" → {layer.inner_product_param.num_output}"
    if rates and layer.param:
        text += "  lr " + ", ".join(f"{param.lr_mult:g}" for param in layer.param)
    return text


def _width(layer: pb.LayerParameter, rates: bool) -> float:
    return max(90.0, text_width(layer.name, SIZE, bold=True) + text_width(_detail(layer, rates), SMALL) + 3 * PAD)


def _draw(scene: Scene, stack: Sequence[pb.LayerParameter], x: float, y: float, width: float, rates: bool) -> None:
    for i, layer in enumerate(stack):
        up = y + i * ROW
        scene.shapes.append(Box(x, up, width, ROW, _family(layer)[0], layer=layer.name))
        scene.shapes.append(Text(x + PAD, up + 16, layer.name, SIZE, bold=True))
        detail = _detail(layer, rates)
        scene.shapes.append(Text(x + width - PAD, up + 16, detail, SMALL, anchor="end", fill="#3e4c59"))
    scene.shapes.append(Box(x, y, width, ROW * len(stack), "none", "#7b8794", 5))


def _head(net: pb.NetParameter, layers: Sequence[pb.LayerParameter], phase: int | None) -> list[Box | Text | Curve]:
    """Title and legend."""
    what = f"{pb.Phase.Name(phase)}, " if phase in (pb.TRAIN, pb.TEST) else ""
    shapes: list[Box | Text | Curve] = [
        Text(MARGIN, 36, net.name or "a net", 18, bold=True),
        Text(MARGIN, 55, f"{what}{len(layers)} layers", SIZE, fill="#52606d"),
    ]
    x = MARGIN
    for colour, name in dict.fromkeys(map(_family, layers)):
        shapes += [Box(x, 66, 12, 12, colour, "#7b8794", 3), Text(x + 17, 76, name, SMALL, fill="#52606d")]
        x += 17 + text_width(name, SMALL) + 14
    return shapes
