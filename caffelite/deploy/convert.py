"""Converts a train net to a deploy net: the layers from data to scores, with probabilities instead of losses."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, did_you_mean
from ..layers.base.detection_base import DetectingLayer
from ..layers.base.facets import Compares
from ..layers.base.feeding import Feeding, feeding, is_input, make_input
from ..layers.recurrent import Recurrent
from ..net.graph import Graph, Node, Value
from ..proof.logits import logits_of

FILLERS = ("weight_filler", "bias_filler", "filler", "scale_filler")
# Fields of a transform_param that are random or follow from the input's channels: not needed for a single image.
CHANCE = (
    *("mirror", "perturb_param", "distort_param", "noise_param", "force_color", "force_gray"),
    *("resize_param", "expand_param", "emit_constraint"),  # the input has the size
)


@dataclass
class Converted:
    """A deploy net.

    inputs: its inputs' names. outputs: of the scores or probabilities. scores: what the losses compare, and outputs,
    that both nets have, by name, as the converted graph has them. notes: what was left out, and why.
    """

    message: pb.NetParameter
    inputs: list[str]
    outputs: list[str]
    scores: dict[str, Value]
    notes: list[str] = field(default_factory=list)


def convert(graph: Graph, wanted: Iterable[str] = (), batch: int = 1) -> Converted:
    """The deploy net of a net's TEST graph. wanted: output blobs instead of those that the losses compare; batch:
    samples per pass. Of a net that is a deploy net already, its preprocessing stays, and its labels where its outputs
    do.

    Of several losses those of the greatest weight count. Layers keep their names, so weights fit. Errors: an unknown
    blob is wanted, or one that only labels lead to.
    """
    notes: list[str] = []
    detectors = [node for node in graph.nodes if isinstance(node.layer, DetectingLayer)]
    if wanted:
        scores: list[tuple[Value, Node | None]] = [(_value(graph, name), None) for name in wanted]
    elif detectors:
        scores = [(node.tops[0], None) for node in detectors]
    else:
        scores = _scores(graph, notes)
    needed = _ancestors(value for value, _ in scores)
    made = pb.NetParameter(name=graph.name)
    if graph.message.HasField("deploy_param"):
        made.deploy_param.CopyFrom(graph.message.deploy_param)
        for name in ("label", "answer") if wanted else ():
            made.deploy_param.ClearField(name)
    recurrent = any(isinstance(node.layer, Recurrent) for node in needed)
    for node in needed:
        made.layer.append(
            _input(node, needed, scores, None if recurrent else batch)
            if isinstance(node.layer, Feeding)
            else _bare(node.layer.spec)
        )
    if not any(isinstance(node.layer, Feeding) for node in needed):
        what = "the outputs do not depend on any data"
        raise CaffeliteError(what, found=", ".join(value.name for value, _ in scores))
    outputs, taken = [], set(graph.values)
    for value, loss in scores:
        compares = Compares.of(loss.layer.spec.type) if loss else Compares()
        if loss and compares.decoder:
            name = next(n for n in ("text", f"{loss.name}_text", f"{loss.name}_labels") if n not in taken)
            taken.add(name)
            ctc: Any = loss.layer
            decoder = ctc.decoder()
            decoder.MergeFrom(pb.LayerParameter(name=name, type=compares.decoder, bottom=[value.name], top=[name]))
            made.layer.append(decoder)
            outputs.append(name)
            continue
        kind = compares.probability
        if loss is None or not kind:
            outputs.append(value.name)
            continue
        if same := _made_already(value, kind, loss):
            made.layer.append(_bare(same.layer.spec))
            outputs.append(same.tops[0].name)
            continue
        name = next(n for n in ("prob", f"{loss.name}_prob", f"{loss.name}_probability") if n not in taken)
        taken.add(name)
        layer = pb.LayerParameter(name=name, type=kind, bottom=[value.name], top=[name])
        if kind == "Softmax":
            if loss.layer.p.axis != 1:
                layer.softmax_param.axis = loss.layer.p.axis
        made.layer.append(layer)
        outputs.append(name)
    inputs = [top for layer in made.layer if is_input(layer) for top in layer.top]
    both = _in_both(graph, scores, outputs, [] if wanted else detectors)
    return Converted(made, inputs, list(dict.fromkeys(outputs)), both, notes)


def _in_both(
    graph: Graph, scores: list[tuple[Value, Node | None]], outputs: list[str], detectors: list[Node]
) -> dict[str, Value]:
    """What both nets compute, by name, and what a softmax or sigmoid makes it of. detectors: whose offsets and scores
    are taken instead, as rows of detections change their number with rounding."""
    both = {value.name: value for value, _ in scores} | {
        name: graph.values[name] for name in outputs if name in graph.values
    }
    if detectors:
        both = {value.name: value for node in detectors for value in node.bottoms[:2]}
    before = [logits for value in both.values() if (logits := logits_of(value))]
    return both | {value.name: value for value in before if graph.values[value.name] is value}


def _value(graph: Graph, name: str) -> Value:
    if name not in graph.values:
        what = f'the net has no blob "{name}"'
        raise CaffeliteError(what, expected="one of its blobs", remedy=did_you_mean(name, graph.values))
    return graph.values[name]


def _scores(graph: Graph, notes: list[str]) -> list[tuple[Value, Node | None]]:
    """(scores, the loss that compares them): bottoms of losses that something learned leads to."""
    losses = [
        (max(node.loss_weights, default=0.0), node)
        for node in graph.nodes
        if node.layer.loss and any(node.loss_weights)
    ]
    if losses:
        most = max(weight for weight, _ in losses)
        notes += [
            f'loss "{node.name}" of weight {weight:g} is left out, with what only it needs'
            for weight, node in losses
            if weight < most
        ]
        compared: list[tuple[Value, Node | None]] = []
        for _, node in (pair for pair in losses if pair[0] == most):
            learned = [v for v in dict.fromkeys(node.bottoms) if any(n.params for n in _ancestors([v]))]
            compared += [(value, node) for value in learned or node.bottoms[:1]]
        return compared
    judges = [node for node in graph.nodes if Compares.of(node.layer.spec.type).scores]
    if judges:
        return [(value, None) for value in dict.fromkeys(node.bottoms[0] for node in judges)]
    return [(value, None) for value in graph.outputs if not isinstance(value.node.layer, Feeding)]


def _ancestors(values: Iterable[Value]) -> list[Node]:
    nodes: dict[int, Node] = {}
    waiting = list(values)
    while waiting:
        node = waiting.pop().node
        if node.index not in nodes:
            nodes[node.index] = node
            waiting += node.bottoms
    return [nodes[index] for index in sorted(nodes)]


def _made_already(value: Value, kind: str, loss: Node) -> Node | None:
    """A layer of the net that already computes the loss's probabilities from the scores."""
    for node, _ in value.readers:
        if node.layer.spec.type == kind and (kind != "Softmax" or node.layer.p.axis == loss.layer.p.axis):
            return node
    return None


def _input(
    node: Node, needed: list[Node], scores: list[tuple[Value, Node | None]], batch: int | None
) -> pb.LayerParameter:
    spec, readers = node.layer.spec, set(needed)
    used = [
        v
        for v in node.tops
        if any(reader in readers for reader, _ in v.readers) or any(v is value for value, _ in scores)
    ]
    made = pb.LayerParameter(name=spec.name, top=[value.name for value in used])
    first = [] if batch is None or is_input(spec) else [batch]
    make_input(made, ([*first, *value.shape[len(first) :]] if value.shape else [] for value in used))
    if feeding(node.layer).transforms_images:
        made.transform_param.CopyFrom(feeding(node.layer).image_transform(spec))
        for name in CHANCE:
            made.transform_param.ClearField(name)
        if not made.transform_param.ListFields():
            made.ClearField("transform_param")
    elif is_input(spec) and spec.HasField("transform_param"):
        made.transform_param.CopyFrom(spec.transform_param)
    return made


def _bare(spec: pb.LayerParameter) -> pb.LayerParameter:
    """A layer without the fields that only training uses: rules, rates, fillers, loss weights."""
    made = deepcopy(spec)
    for name in ("include", "exclude", "phase", "loss_weight", "propagate_down", "blobs"):
        made.ClearField(name)
    names = [param.name for param in spec.param]
    made.ClearField("param")
    if any(names):
        made.param.extend(pb.ParamSpec(name=name) if name else pb.ParamSpec() for name in names)
    for descriptor, value in made.ListFields():
        if descriptor.name.endswith("_param") and descriptor.message_type:
            for name in FILLERS:
                if name in descriptor.message_type.fields_by_name:
                    value.ClearField(name)
    return made
