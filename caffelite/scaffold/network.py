"""Adapts a shipped net to a data set: its layers without data, losses and auxiliary classifiers, and a new last layer
with losses for the task."""

from collections.abc import Container
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..data.tables import CLASSES, LABELS
from ..errors import CaffeliteError, Locator
from ..layers import REGISTRY
from ..layers.activation import ReLU
from ..layers.base.facets import Compares, Described
from ..layers.batch_norm import BatchNorm

TESTS = "include { phase: TEST }"
SIZE = "the size of the difference"
UNITS = "the net learns numbers of mean 0 and spread 1; this turns them into the data's units"
TOP_5 = 10  # classes from which the five best predictions are scored too
MOST_SCORED = 100  # classes up to which tests score each
SIMILAR = 3.0  # ratio of spreads up to which numbers share one scale


@dataclass
class Head:
    """What the last layer predicts. scale, shift: of each number, that turn predictions of mean 0 and spread 1 into the
    data's units."""

    task: str
    names: list[str]
    scale: list[float] = field(default_factory=list)
    shift: list[float] = field(default_factory=list)

    @property
    def alike(self) -> bool:
        """Whether all numbers share one scale and one shift."""
        return len(self.names) == 1 or max(self.scale) <= SIMILAR * min(self.scale)


@dataclass(frozen=True)
class Score:
    """What tests report and best_score names. lowest: less of it is better."""

    name: str
    lowest: bool = False


def score(head: Head) -> Score | None:
    """The score that chooses the best weights; None where there is no single one."""
    if head.task == CLASSES:
        return Score("accuracy")
    if head.task == LABELS:
        return Score("label_accuracy")
    return Score("mae", lowest=True) if head.alike else None


def units(values: np.ndarray, names: list[str]) -> tuple[list[float], list[float]]:
    """(scale, shift) of each column of numbers: its spread and its mean; one for all where the spreads are similar.

    Errors: a column with one value throughout.
    """
    spread, mean = values.std(0, dtype=np.float64), values.mean(0, dtype=np.float64)
    for name, value, middle in zip(names, spread, mean, strict=True):
        if value <= 1e-7 * max(1.0, abs(middle)):
            what = f'column "{name}" has one value throughout'
            raise CaffeliteError(what, found=f"{middle:g}", remedy="leave the column out")
    if spread.max() <= SIMILAR * spread.min():
        spread = np.full_like(spread, np.sqrt(np.mean(np.square(values - values.mean(dtype=np.float64)))))
        mean = np.full_like(mean, values.mean(dtype=np.float64))
    return [float(f"{v:.4g}") for v in spread], [float(f"{v:.4g}") for v in mean]


@dataclass
class Network:
    """layers: of the net without data, in order. last: the name of the new last layer; learned: names of the other
    layers with weights. notes: comments on layers, by name, in addition to what their type says."""

    layers: list[pb.LayerParameter]
    last: str
    learned: list[str]
    notes: dict[str, str] = field(default_factory=dict)


def has_statistics(network: Network) -> bool:
    """Whether a layer measures statistics while it trains, so that a test before the first iteration has none."""
    norms = (layer for layer in network.layers if issubclass(REGISTRY[layer.type], BatchNorm))
    return any(not layer.batch_norm_param.use_global_stats for layer in norms)


def weights_of(layer: pb.LayerParameter) -> Any:
    """The message of a layer that multiplies by weights and adds biases; None of another one."""
    field = REGISTRY[layer.type].field if layer.type in REGISTRY else ""
    message = getattr(layer, field) if field else None
    return message if hasattr(message, "num_output") and hasattr(message, "bias_term") else None


def adapt(net: pb.NetParameter, name: str, head: Head, locate: Locator) -> Network:
    """The layers of a net up to its last layer, which is new and named for the project; then losses and scores.

    Errors: a net without a SoftmaxWithLoss at the end of a chain from its data; one that changed data axes.
    """
    losses = [layer for layer in net.layer if Compares.of(layer.type).probability and Compares.of(layer.type).classes]
    losses = [layer for layer in losses if not layer.include or any(r.phase == pb.TRAIN for r in layer.include)]
    if not losses:
        raise locate.error("this net is no classifier", expected="a SoftmaxWithLoss", remedy="choose another with -net")
    layers = _trunk(net, losses[-1].bottom[0])
    position = next((i for i in range(len(layers) - 1, -1, -1) if weights_of(layers[i])), None)
    if position is None:
        raise locate.error("this net has no layer with weights")
    for layer in layers:
        _spare(layer)
    last = layers[position]
    tail = [layer for layer in layers[position + 1 :] if REGISTRY[layer.type] is not ReLU]
    network = Network(
        _own_tops([*layers[:position], last, *tail]),
        f"{last.name}_{name}",
        [layer.name for layer in layers[:position] if weights_of(layer)],
    )
    _rename_last(network, last, len(head.names))
    _add_head(network, head, network.layers[-1].top[0], REGISTRY[last.type].needs_images)
    return network


def _trunk(net: pb.NetParameter, scores: str) -> list[pb.LayerParameter]:
    """Copies of the layers that lead to the scores, without those that feed data or are for one phase only."""
    needed, trunk = {scores}, []
    for layer in reversed(net.layer):
        if not layer.bottom or layer.include or layer.exclude or needed.isdisjoint(layer.top):
            continue
        needed.update(layer.bottom)
        trunk.append(deepcopy(layer))
    return trunk[::-1]


def _spare(layer: pb.LayerParameter) -> None:
    """Biases, scales and shifts learn without weight decay: it would pull them to 0, which helps nothing."""
    kind = REGISTRY[layer.type]
    if p := weights_of(layer):
        decay = layer.param[0].decay_mult if layer.param else 1.0
        del layer.param[:]
        layer.param.add(lr_mult=1, decay_mult=min(decay, 1.0))
        if p.bias_term:
            layer.param.add(lr_mult=2, decay_mult=0)
    elif Described.of(layer.type).spared and not issubclass(kind, BatchNorm):
        del layer.param[:]
        for _ in range(1 + getattr(getattr(layer, kind.field), "bias_term", False)):
            layer.param.add(lr_mult=1, decay_mult=0)


def _own_tops(layers: list[pb.LayerParameter]) -> list[pb.LayerParameter]:
    """Gives in-place layers that cannot work in place a top with their own name."""
    now: dict[str, str] = {}
    for layer in layers:
        bottoms = [now.get(name, name) for name in layer.bottom]
        in_place = list(layer.top) == list(layer.bottom)
        layer.bottom[:] = bottoms
        if in_place and Described.of(layer.type).own_top:
            now[layer.top[0]] = layer.name
            layer.top[:] = [layer.name]
        elif in_place:
            layer.top[:] = bottoms
        else:
            for top in layer.top:
                now.pop(top, None)
    return layers


def _rename_last(network: Network, last: pb.LayerParameter, outputs: int) -> None:
    old, last.name = last.top[0], network.last
    p = weights_of(last)
    p.num_output = outputs
    p.weight_filler.CopyFrom(pb.FillerParameter(type="gaussian", std=0.01))
    p.ClearField("bias_filler")
    for layer in network.layers[network.layers.index(last) + 1 :]:
        layer.bottom[:] = [network.last if name == old else name for name in layer.bottom]
        layer.top[:] = [network.last if name == old else name for name in layer.top]
    last.top[:] = [network.last]


def _add_head(network: Network, head: Head, scores: str, spatial: bool) -> None:
    if head.task == CLASSES:
        softmax = "softmax turns scores into probabilities of the classes, of which exactly one holds"
        _add(network, 'name: "loss" type: "SoftmaxWithLoss"', [scores, "label"], softmax)
        note, tops = "share of test images whose best class is right; only tests need it", ["accuracy"]
        if len(head.names) <= MOST_SCORED:
            note, tops = f"{note}; class_accuracy is that share of each class", [*tops, "class_accuracy"]
        _add(network, f'name: "accuracy" type: "Accuracy" {TESTS}', [scores, "label"], note, tops)
        if len(head.names) > TOP_5:
            five = f'name: "accuracy_top_5" type: "Accuracy" {TESTS} accuracy_param {{ top_k: 5 }}'
            _add(network, five, [scores, "label"], "share of test images with the right class among the five best")
        return
    if spatial:
        note = "one row of scores for each image, as the labels are"
        scores = _add(network, 'name: "scores" type: "Flatten"', [scores], note)
    if head.task == LABELS:
        _add_label_head(network, scores)
    elif head.alike:
        _add_number_head(network, head, scores)
    else:
        _add_column_heads(network, head, scores)


def _add(network: Network, text: str, bottoms: list[str], note: str = "", tops: list[str] | None = None) -> str:
    """Adds the layer of this text; returns the name of its first top. tops: by default one called as the layer."""
    layer = prototxt.parse(text, pb.LayerParameter).message
    layer.bottom[:], layer.top[:] = bottoms, [layer.name] if tops is None else tops
    network.layers.append(layer)
    if note:
        network.notes[layer.name] = note
    return layer.top[0] if layer.top else ""


def _add_difference(network: Network, prediction: str, note: str) -> str:
    text = f'name: "difference" type: "Eltwise" {TESTS} eltwise_param {{ coeff: 1 coeff: -1 }}'
    return _add(network, text, [prediction, "label"], note)


def _add_label_head(network: Network, scores: str) -> None:
    sigmoid = "a sigmoid for each label: any number of labels may hold for one image"
    _add(network, 'name: "loss" type: "SigmoidCrossEntropyLoss"', [scores, "label"], sigmoid)
    above = "1 where the score is above 0, which is a probability above 1/2"
    decisions = _add(network, f'name: "predictions" type: "Threshold" {TESTS}', [scores], above)
    difference = _add_difference(network, decisions, "0 where the prediction is correct, else 1 or -1")
    wrong = _add(network, f'name: "wrong" type: "AbsVal" {TESTS}', [difference], SIZE)
    invert = f'name: "right" type: "Power" {TESTS} power_param {{ scale: -1 shift: 1 }}'
    right = _add(network, invert, [wrong], "1 where it is right, else 0")
    mean = f'name: "label_accuracy" type: "Reduction" {TESTS} reduction_param {{ operation: MEAN }}'
    _add(network, mean, [right], "share of labels that are predicted correctly; only tests need it")


def _add_number_head(network: Network, head: Head, scores: str) -> None:
    """All numbers as one blob, in one unit."""
    scale, shift = head.scale[0], head.shift[0]
    power = f'name: "numbers" type: "Power" power_param {{ scale: {scale} shift: {shift} }}'
    powers = _add(network, power, [scores], UNITS)
    loss = f'name: "loss" type: "EuclideanLoss" loss_weight: {1 / scale**2:.6g}'
    note = f"half the squared error; loss_weight 1 / {scale:g}^2 makes it one of spread 1"
    _add(network, loss, [powers, "label"], note)
    difference = _add_difference(network, powers, "prediction minus label")
    error = _add(network, f'name: "error" type: "AbsVal" {TESTS}', [difference], SIZE)
    mean = f'name: "mae" type: "Reduction" {TESTS} reduction_param {{ operation: MEAN }}'
    _add(network, mean, [error], "mean absolute error in the data's units; only tests need it")


def _add_column_heads(network: Network, head: Head, scores: str) -> None:
    """Each column of numbers in its own unit."""
    cuts = " ".join(f"slice_point: {i}" for i in range(1, len(head.names)))
    columns = [f"number{i + 1}" for i in range(len(head.names))]
    note = "one blob for each column of the table, because their units differ"
    split = f'name: "columns" type: "Slice" slice_param {{ axis: 1 {cuts} }}'
    _add(network, split, [scores], note, [f"{column}_scaled" for column in columns])
    for column, name, scale, shift in zip(columns, head.names, head.scale, head.shift, strict=True):
        power = f'name: "{column}" type: "Power" power_param {{ scale: {scale} shift: {shift} }}'
        _add(network, power, [f"{column}_scaled"], f"{name}: {UNITS}")
    split = f'name: "label_columns" type: "Slice" slice_param {{ axis: 1 {cuts} }}'
    _add(network, split, ["label"], "the table's columns, one by one", [f"{column}_label" for column in columns])
    for column, name, scale in zip(columns, head.names, head.scale, strict=True):
        loss = f'name: "{column}_loss" type: "EuclideanLoss" loss_weight: {1 / (len(columns) * scale**2):.6g}'
        note = f"{name}: half the squared error, weighted by its spread, so that columns count alike"
        _add(network, loss, [column, f"{column}_label"], note)
    whole = "all columns in one blob, the output of the deploy net"
    _add(network, 'name: "numbers" type: "Concat"', columns, whole)
    silent = "keeps the predictions out of the log; the deploy net gives them"
    _add(network, 'name: "silence" type: "Silence"', ["numbers"], silent, [])


def start_fillers(network: Network) -> None:
    """Initial weights for inputs of spread 1: of every layer but the last, by He et al. 2015."""
    for layer in network.layers:
        if (p := weights_of(layer)) and layer.name != network.last:
            p.weight_filler.CopyFrom(pb.FillerParameter(type="msra"))
            p.ClearField("bias_filler")


def normalize(network: Network, names: Container[str] | None = None) -> None:
    """Replaces LRN by BatchNorm and Scale: with few images, LRN nets of some seeds never leave the level of guessing.
    names: of the layers to replace; None for all."""
    layers: list[pb.LayerParameter] = []
    for layer in network.layers:
        layers.append(layer)
        if layer.type == "LRN" and (names is None or layer.name in names):
            layer.type = "BatchNorm"
            layer.ClearField("lrn_param")
            scale = pb.LayerParameter(name=f"{layer.name}_scale", type="Scale", bottom=layer.top, top=layer.top)
            scale.scale_param.bias_term = True
            _spare(scale)
            layers.append(scale)
    network.layers[:] = layers


def freeze(network: Network, frozen: list[str]) -> None:
    """Layers that keep their weights, and the normalizations that follow them; new layers learn ten times as fast as
    the others."""
    held = set(frozen)
    blobs: set[str] = set()
    for layer in network.layers:
        after = Described.of(layer.type).spared and not blobs.isdisjoint(layer.bottom)
        if layer.name in held or after:
            blobs.update(layer.top)
            for param in layer.param:
                param.lr_mult, param.decay_mult = 0, 0
            if issubclass(REGISTRY[layer.type], BatchNorm):
                layer.batch_norm_param.use_global_stats = True
        else:
            blobs.difference_update(layer.top)
            if layer.name == network.last:
                for param in layer.param:
                    param.lr_mult *= 10
