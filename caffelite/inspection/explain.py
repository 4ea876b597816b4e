"""Explains one layer: its shape, its parameters' initial values, whether it runs backward, its memory and fusion."""

import math
from dataclasses import dataclass, field

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.traits import DeviceTraits
from ..devices.window import Window
from ..layers import ParameterSpec
from ..layers.base import fillers, sliding
from ..layers.base.feeding import Feeding
from ..layers.concat_slice import Concat
from ..layers.convolution import Deconvolution
from ..layers.inner_product import InnerProduct
from ..layers.pooling import Pooling
from ..net.compile import compile
from ..net.graph import AUTOMATIC, Graph, Node, Value
from ..net.packing import Storage
from . import counts
from .nets import times
from .target import CPU

SAMPLED = 200_000  # numbers in a parameter up to which a filler without a formula is run for its range


@dataclass
class Explanation:
    """Lines of text by topic, in reading order."""

    layer: str
    type: str
    phase: str
    position: str
    about: str
    shape: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    plan: list[str] = field(default_factory=list)


def explain(graph: Graph, node: Node, traits: DeviceTraits = CPU) -> Explanation:
    """The explanation of a layer of a graph. traits: of the device for which memory and fusion are explained."""
    layer = node.layer
    about = (type(layer).__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")
    position = f"layer {node.index + 1} of {len(graph.nodes)}, {layer.locate()}"
    explanation = Explanation(node.name, layer.spec.type, pb.Phase.Name(graph.phase), position, about)
    explanation.shape = _bottoms(node) + _shape(node) + _tops(node) + _receptive_field(graph, node)
    explanation.parameters = [_parameter(graph, node, i, blob) for i, blob in enumerate(layer.param_blobs)] or ["none"]
    explanation.backward = _backward(graph, node)
    explanation.plan = _planned(graph, node, traits)
    return explanation


# shapes


def _bottoms(node: Node) -> list[str]:
    return [
        f'bottom "{b.name}" {times(b.shape)}, made by {b.node.name} ({b.node.layer.spec.type})' for b in node.bottoms
    ]


def _tops(node: Node) -> list[str]:
    lines = []
    for top, weight in zip(node.tops, node.loss_weights, strict=True):
        readers = ", ".join(dict.fromkeys(reader.name for reader, _ in top.readers)) or "nobody: it is an output"
        name = "its loss" if top.name == AUTOMATIC else f'top "{top.name}" {times(top.shape)}'
        lines.append(f"{name}, read by {readers}" + (f"; loss_weight {weight:g}" if weight else ""))
    return lines


def _shape(node: Node) -> list[str]:
    """The arithmetic of each spatial axis of a window, or the rule of the layer's type."""
    layer = node.layer
    window = getattr(layer, "window", None)
    if not node.bottoms:
        param = layer.spec.HasField("transform_param") and (
            layer.spec.transform_param.crop_size or layer.spec.transform_param.crop_h
        )
        cropped = ", cropped by transform_param" if param else ""
        return [f"its shape is the batch size and that of a sample{cropped}"] if node.tops else []
    if window is not None and node.tops and not getattr(layer.p, "global_pooling", False):
        if hasattr(layer, "channels") and len(layer.param_blobs[0].shape) == 2:
            return ["there are no spatial axes: each sample is one place"]
        rank = len(window.kernel)
        spatial, out = node.bottoms[0].shape[-rank:], node.tops[0].shape[-rank:]
        names = ("H", "W") if rank == 2 else tuple(f"axis {i}" for i in range(rank))
        sums = [
            _sum(node, window, name, i, size, end)
            for i, (name, size, end) in enumerate(zip(names, spatial, out, strict=True))
        ]
        return sums[:1] if len(set(spatial)) == 1 and len({*zip(*window, strict=True)}) == 1 else sums
    if getattr(layer.p, "global_pooling", False):
        return ["global pooling: one window, the image"]
    if isinstance(layer, InnerProduct):
        axis, shape = layer.axis(layer.p.axis, len(node.bottoms[0].shape)), node.bottoms[0].shape
        inputs = math.prod(shape[axis:])
        return [
            f"{times(shape[axis:])} = {inputs} inputs of each of {times(shape[:axis])} rows become num_output = "
            f"{layer.p.num_output}"
        ]
    if isinstance(layer, Concat) and node.tops:
        axis = next((i for i, d in enumerate(node.tops[0].shape) if d != node.bottoms[0].shape[i]), 1)
        return [
            f"along axis {axis}: {' + '.join(str(b.shape[axis]) for b in node.bottoms)} = {node.tops[0].shape[axis]}"
        ]
    if node.tops and node.tops[0].shape == node.bottoms[0].shape:
        return ["the bottom's shape"]
    return []


def _sum(node: Node, window: Window, name: str, i: int, size: int, out: int) -> str:
    kernel, stride, pad, dilation = (values[i] for values in window)
    reach = sliding.reach(window)[i]
    dilated = f"dilation {dilation}: the kernel reaches {reach}; " if dilation > 1 else ""
    if isinstance(node.layer, Deconvolution):
        return (
            f"{name}: {dilated}stride · ({name} - 1) + kernel - 2 · pad = {stride} · ({size} - 1) + {reach} - 2 · "
            f"{pad} = {out}"
        )
    up = isinstance(node.layer, Pooling) and node.layer.up
    left, right = ("⌈", "⌉") if up else ("⌊", "⌋")
    exact = (-(-(size + 2 * pad - reach) // stride) if up else (size + 2 * pad - reach) // stride) + 1
    text = f"{name}: {dilated}{left}({size} + 2 · {pad} - {reach}) / {stride}{right} + 1 = {exact}"
    lost = (size + 2 * pad - reach) % stride
    if exact != out:
        text += f", less a window that would begin beyond the image: {out}"
    elif lost and not up:
        text += f" ({lost} at the end {'is' if lost == 1 else 'are'} in no window)"
    return text


def _receptive_field(graph: Graph, node: Node) -> list[str]:
    fields = counts.receptive_fields(graph)
    field = next((fields[t] for t in node.tops if fields[t] != ()), ())
    work = counts.multiply_adds(node) / max(graph.batch_size, 1)
    lines = [f"{work:,.0f} multiply-adds a sample"] if work else []
    if field is counts.EVERYTHING:
        lines.append("each number depends on the whole image")
    elif field and max(f.size for f in field) > 1:
        jump = "×".join(dict.fromkeys(f"{f.jump:g}" for f in field))
        lines.append(
            f"each number depends on {counts.shown(field)} pixels of the data, its neighbor on those {jump} further"
        )
    return lines


# parameters


def _parameter(graph: Graph, node: Node, i: int, blob: ParameterSpec) -> str:
    ref = node.params[i]
    owner = graph.parameters[ref.owner]
    count = math.prod(blob.shape)
    text = (
        f"{i}: " + (f"{times(blob.shape)} = " if len(blob.shape) > 1 else "") + f"{count:,} number{'s' * (count != 1)}"
    )
    if owner.node is not node or owner.index != i:
        return f'{text}; shared, as "{owner.name}", with layer {owner.node.name}, which owns it'
    text += "; starts with the blobs of the net's file" if node.layer.spec.blobs else f"; {initial_values(blob)}"
    if blob.statistic:
        return f"{text}; a statistic that the layer keeps itself"
    lr, decay = (1.0 if m is None else m for m in (owner.lr_mult, owner.decay_mult))
    return f"{text}; lr_mult {lr:g}" + (" (never changes)" if not lr else f", decay_mult {decay:g}")


def initial_values(blob: ParameterSpec) -> str:
    """How a parameter is initialized: the filler's formula with its numbers, and the standard deviation compared with
    the one that keeps a signal's variance through ReLU."""
    f, shape = blob.filler, blob.shape
    if f.type == "constant":
        return f"starts at {f.value:g}"
    fan_in = math.prod(shape[1:]) if len(shape) > 1 else math.prod(shape)
    fan_out = math.prod(shape) // shape[1] if len(shape) > 1 else math.prod(shape)
    fan = {pb.FillerParameter.FAN_IN: fan_in, pb.FillerParameter.FAN_OUT: fan_out}.get(
        f.variance_norm, (fan_in + fan_out) / 2
    )
    norm = pb.FillerParameter.VarianceNorm.Name(f.variance_norm).lower()
    sparse = ""
    if f.type == "xavier":
        text = f"xavier: uniform within ±√(3 / {fan:g}) = ±{math.sqrt(3 / fan):.4g} ({norm})"
        deviation = math.sqrt(1 / fan)
    elif f.type == "msra":
        deviation = f.scale * math.sqrt(2 / fan)
        text = f"msra: normal, √(2 / {fan:g}) = {deviation:.4g} ({norm})"
    elif f.type == "gaussian":
        deviation = f.std * (math.sqrt(f.sparse / shape[0]) if f.sparse >= 0 else 1)
        sparse = f", about {f.sparse} of each output's {shape[0]} kept" if f.sparse >= 0 else ""
        text = f"gaussian: mean {f.mean:g}, deviation {f.std:g}{sparse}"
    elif f.type == "uniform":
        text, deviation = f"uniform from {f.min:g} to {f.max:g}", (f.max - f.min) / math.sqrt(12)
    else:
        drawn = fillers.fill(f, shape, np.random.default_rng(0)) if math.prod(shape) <= SAMPLED else None
        return f.type + ("" if drawn is None else f": from {drawn.min():.4g} to {drawn.max():.4g}")
    if len(shape) < 2:
        return text
    keeps = math.sqrt(2 / fan_in)
    ratio = deviation / keeps if keeps else 0
    verdict = "keeps" if 0.7 < ratio < 1.4 else "shrinks" if ratio < 1 else "grows"
    return (
        f"{text}; fan-in {fan_in:,}: deviation {deviation:.4g} {verdict} a signal through ReLU (√(2 / fan-in) = "
        f"{keeps:.4g})"
    )


# backward


def _backward(graph: Graph, node: Node) -> list[str]:
    if node.backward:
        lines = ["runs: " + " and ".join(_purposes(graph, node))]
    else:
        lines = [f"does not run: {_why_not(graph, node)}"]
    for i, bottom in enumerate(node.bottoms):
        if node.backward and not node.gradient_to[i]:
            lines.append(f'no gradient for bottom "{bottom.name}": {_why_no_gradient(node, i, bottom)}')
    return lines


def _purposes(graph: Graph, node: Node) -> list[str]:
    own = [str(i) for i, p in enumerate(node.params) if p.wanted]
    down = [f'"{b.name}"' for b, wanted in zip(node.bottoms, node.gradient_to, strict=True) if wanted]
    purposes = [f"parameter{'s' * (len(own) > 1)} {', '.join(own)} learn{'s' * (len(own) == 1)}"] if own else []
    why = "force_backward requires it" if graph.message.force_backward else "something there or below learns"
    return purposes + ([f"{', '.join(down)} get{'s' * (len(down) == 1)} a gradient, since {why}"] if down else [])


def _why_not(graph: Graph, node: Node) -> str:
    layer = node.layer
    if graph.phase == pb.TEST and not graph.message.force_backward:
        return "the phase is TEST, and nothing requires gradients (force_backward would)"
    if not layer.differentiable:
        return "it brings the data" if isinstance(layer, Feeding) else f"{layer.spec.type} has no gradient"
    if not graph.losses:
        return "the net has no loss"
    wanted = any(p.wanted for p in node.params)
    below = any(b.gradient or b.node.backward for b in node.bottoms) or any(_learns(b.node) for b in node.bottoms)
    if not wanted and not below:
        return "nothing in it or below it learns" + (": its own lr_mult is 0" if node.params else "")
    if not wanted and layer.spec.propagate_down and not any(layer.spec.propagate_down):
        return "propagate_down is false for every bottom"
    return "no loss above it gives it a gradient"


def _learns(node: Node) -> bool:
    return node.layer.differentiable and (
        any(p.wanted for p in node.params) or any(_learns(b.node) for b in node.bottoms)
    )


def _why_no_gradient(node: Node, i: int, bottom: Value) -> str:
    if i in node.layer.constant_bottoms:
        return "it is a label or the like, which nobody learns"
    if node.layer.spec.propagate_down and not node.layer.spec.propagate_down[i]:
        return "propagate_down is false"
    return "nothing below it learns"


# the plan


def _planned(graph: Graph, node: Node, traits: DeviceTraits) -> list[str]:
    planned = compile(graph, traits)
    graph, node, lines = planned.graph, planned.nodes[node], []
    for step in planned.forward:
        if step.fused and node in (step.node, *step.fused):
            others = ", ".join(f"{n.name} ({n.layer.spec.type})" for n in (step.node, *step.fused) if n is not node)
            lines.append(f"fused with {others}: one step computes all")
    if node.name in planned.refused_in_place:
        lines.append(
            "its prototxt requests in-place, which would overwrite values that are still needed: its top has memory of "
            "its own"
        )
    for i, top in enumerate(node.tops):
        storage = planned.data[top]
        below = next((b for b in node.bottoms if planned.data[b] is storage), None)
        if below is not None and not any("fused" in line for line in lines):
            what = "is the bottom under another shape" if node.layer.view else "shares the memory of its bottom"
            lines.append(f'top "{top.name}" {what}: no memory of its own')
        else:
            lines.append(f'top "{_name(top)}": {storage.bytes:,} bytes, {_life(graph, storage)}')
        if node.reads_top(i):
            lines.append(f'its backward pass reads top "{_name(top)}" again')
    read = [f'"{bottom.name}"' for i, bottom in enumerate(node.bottoms) if node.reads_bottom(i)]
    if read:
        lines.append(f"its backward pass reads {', '.join(dict.fromkeys(read))} again")
    for name, storage in planned.saved.get(node, {}).items():
        lines.append(
            f"keeps {name}, {storage.bytes:,} bytes, " + ("for its backward pass" if node.backward else "while it runs")
        )
    return lines


def _name(top: Value) -> str:
    return "loss" if top.name == AUTOMATIC else top.name


def _life(graph: Graph, storage: Storage) -> str:
    """How long a storage is needed: forward step i is time i, backward step of layer i is time 2n - 1 - i."""
    n = len(graph.nodes)
    if storage.last >= 2 * n:
        return "kept to the end of the pass"
    last = graph.nodes[storage.last if storage.last < n else 2 * n - 1 - storage.last]
    return f"free again after {last.name}" + (" runs backward" if storage.last >= n else "")
