"""Measures class weights (loss_param.class_weight_balanced) from the labels of a training set."""

import logging
from collections.abc import Iterable, Mapping

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.labels import all_labels
from ..data.order import BalancedOrder
from ..layers.base import class_weights
from ..layers.loss import Loss, SigmoidCrossEntropyLoss
from ..net.graph import Graph, Node
from .nets import NetSpec

log = logging.getLogger("caffelite")

MOST_SHOWN = 12  # classes whose weights are logged one by one


def wanted(message: pb.NetParameter) -> bool:
    """Whether a layer of a net asks for measured class weights."""
    return any(layer.loss_param.class_weight_balanced for layer in message.layer)


def measure(train: Graph) -> dict[str, np.ndarray]:
    """The class weights of each layer of a train net that asks for them, by its name; (C), float32. Errors: the label
    bottom is no top of a data layer with known labels; a label that is no class."""
    return {node.name: _measure(node, layer) for node, layer in _asking(train)}


def known(graph: Graph) -> dict[str, np.ndarray]:
    """The class weights of each layer of a net that asks for them and has them, by its name."""
    return {node.name: layer.class_weights for node, layer in _asking(graph) if layer.class_weights is not None}


def set_weights(graph: Graph, measured: Mapping[str, np.ndarray], spec: NetSpec) -> None:
    """Gives each layer that asks for class weights its own. spec: gets them as class_weight, for the records. Errors: a
    layer without weights in ``measured``, or with another number of classes."""
    asking = _asking(graph)
    if asking:
        message = pb.NetParameter()
        message.CopyFrom(spec.message)
        spec.message = message
    for node, layer in asking:
        values = measured.get(node.name)
        if values is None or len(values) != layer.classes:
            what = f"class_weight_balanced measures no weights for its {layer.classes} classes in the train net"
            remedy = "give the layer the name and the classes of one of the train net, or give class_weight"
            raise layer.error(what, "loss_param", "class_weight_balanced", remedy=remedy, outer=True)
        layer.class_weights = values
        class_weights.replace(spec.message.layer[node.layer_index], values)


def _asking(graph: Graph) -> list[tuple[Node, Loss]]:
    losses = [(node, node.layer) for node in graph.nodes if isinstance(node.layer, Loss)]
    return [(node, layer) for node, layer in losses if layer.spec.loss_param.class_weight_balanced]


def _measure(node: Node, layer: Loss) -> np.ndarray:
    value = node.bottoms[1]
    field = "loss_param", "class_weight_balanced"
    source = getattr(value.node.layer, "source", None)
    blocks = all_labels(source, value.top)
    if blocks is None:
        maker = f'layer "{value.node.name}" ({value.node.layer.spec.type})'
        what = f'class_weight_balanced cannot read the labels "{value.name}" from {maker}'
        expected = "a top of Data, ImageData or HDF5Data"
        raise layer.error(what, *field, expected=expected, remedy="give class_weight instead", outer=True)
    if isinstance(getattr(source, "order", None) or getattr(source, "balanced", None), BalancedOrder):
        text = 'layer "%s": sampler BALANCED draws every class equally often already; class_weight_balanced weighs them'
        log.warning(f"{text} too", layer.name)
    ignored = layer.spec.loss_param.ignore_label if layer.spec.loss_param.HasField("ignore_label") else None
    if isinstance(layer, SigmoidCrossEntropyLoss):
        counts = _count_targets(blocks, layer.classes, ignored)
        return _logged(node, "positive and negative targets", counts, counts[1], counts[0])
    samples = _count_classes(node, blocks, layer.classes, ignored)
    total, present = samples.sum(), np.count_nonzero(samples)
    return _logged(node, "samples", samples[None], np.full(len(samples), total / max(1, present)), samples)


def _count_classes(node: Node, blocks: Iterable[np.ndarray], classes: int, ignored: int | None) -> np.ndarray:
    counts = np.zeros(classes, np.int64)
    for block in blocks:
        labels = np.asarray(block, np.float64).reshape(-1)
        labels = labels if ignored is None else labels[labels != ignored]
        bad = labels[~((labels >= 0) & (labels < classes) & (labels == np.floor(labels)))]
        if len(bad):
            what = f'layer "{node.name}" ({node.layer.spec.type}): a label in the data is no class'
            raise node.layer.locate.error(what, "bottom", 1, expected=f"0 to {classes - 1}", found=f"{bad[0]:g}")
        counts += np.bincount(labels.astype(np.int64), minlength=classes)
    return counts


def _count_targets(blocks: Iterable[np.ndarray], classes: int, ignored: int | None) -> np.ndarray:
    """2×C: positive and negative targets of each label."""
    counts = np.zeros((2, classes))
    for block in blocks:
        targets = np.asarray(block, np.float64).reshape(len(block), classes, -1)
        valid = np.ones(targets.shape, bool) if ignored is None else targets != ignored
        counts += [np.where(valid, t, 0).sum((0, 2)) for t in (targets, 1 - targets)]
    return counts


def _logged(node: Node, what: str, counts: np.ndarray, dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """dividend / divisor, or 1 where either is 0; logged with the counts that they follow from."""
    known = (divisor > 0) & (dividend > 0)
    weights: np.ndarray = np.divide(dividend, divisor, out=np.ones(len(divisor)), where=known).astype(np.float32)
    texts = [" and ".join(f"{count:g}" for count in column) for column in counts.T]
    shown = [f"{i}: {weight:.4g} ({text})" for i, (weight, text) in enumerate(zip(weights, texts, strict=True))]
    if len(shown) > MOST_SHOWN:
        least, most = int(weights.argmin()), int(weights.argmax())
        shown = [f"{len(weights)} classes", f"least {shown[least]}", f"most {shown[most]}"]
    log.info("Class weights of layer %s, from %s: %s", node.name, what, ", ".join(shown))
    if missing := np.flatnonzero(~known).tolist():
        text = "layer %s: classes %s have no %s; their class weight is 1"
        log.warning(text, node.name, ", ".join(map(str, missing[:MOST_SHOWN])), what)
    return weights
