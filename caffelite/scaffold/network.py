"""Adapts a shipped net to a data set: its layers without data, losses and auxiliary classifiers, and a new last layer
with losses for the task."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator
from .dataset import CLASSES, LABELS

OWN_TOP = ("BatchNorm", "Dropout")  # types whose bottom is still needed after them
WEIGHTED = ("Convolution", "InnerProduct", "Deconvolution")
TOP_5 = 10  # classes from which the five best answers are scored too
SIMILAR = 3.0  # ratio of spreads up to which numbers share one scale


@dataclass
class Head:
    """What the last layer answers. scale, shift: of each number, that turn answers of mean 0 and spread 1 into the
    data's units."""

    task: str
    names: list[str]
    scale: list[float] = field(default_factory=list)
    shift: list[float] = field(default_factory=list)

    @property
    def alike(self) -> bool:
        """Whether all numbers share one scale and one shift."""
        return len(self.names) == 1 or max(self.scale) <= SIMILAR * min(self.scale)


def units(values: np.ndarray, names: list[str]) -> tuple[list[float], list[float]]:
    """(scale, shift) of each column of numbers: its spread and its mean; one for all where the spreads are similar.

    Errors: a column with one value throughout.
    """
    spread, mean = values.std(0, dtype=np.float64), values.mean(0, dtype=np.float64)
    for name, value, middle in zip(names, spread, mean, strict=True):
        if value <= 1e-7 * max(1.0, abs(middle)):
            raise CaffeliteError(
                f'column "{name}" has one value throughout', found=f"{middle:g}", remedy="leave the column out"
            )
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


def adapt(net: pb.NetParameter, name: str, head: Head, locate: Locator) -> Network:
    """The layers of a net up to its last layer, which is new and named for the project; then losses and scores.

    Errors: a net without a SoftmaxWithLoss at the end of a chain from its data; one that changed data axes.
    """
    losses = [layer for layer in net.layer if layer.type == "SoftmaxWithLoss"]
    if not losses:
        raise CaffeliteError(
            "this net is no classifier", where=locate(), expected="a SoftmaxWithLoss", remedy="choose another with -net"
        )
    layers, scores = _trunk(net, losses[-1].bottom[0])
    position = next((i for i in range(len(layers) - 1, -1, -1) if layers[i].type in WEIGHTED), None)
    if position is None:
        raise CaffeliteError("this net has no layer with weights", where=locate())
    for layer in layers:
        _spare(layer)
    last = layers[position]
    tail = [layer for layer in layers[position + 1 :] if layer.type != "ReLU"]
    made = Network(
        _own_tops([*layers[:position], last, *tail]),
        f"{last.name}_{name}",
        [layer.name for layer in layers[:position] if layer.type in WEIGHTED],
    )
    scores = _rename_last(made, last, len(head.names), scores)
    _add_head(made, head, scores, last.type == "Convolution")
    return made


def _trunk(net: pb.NetParameter, scores: str) -> tuple[list[pb.LayerParameter], str]:
    """Copies of the layers that lead to the scores, without those that feed data or are for one phase only."""
    needed, trunk = {scores}, []
    for layer in reversed(net.layer):
        if not layer.bottom or layer.include or layer.exclude or needed.isdisjoint(layer.top):
            continue
        needed.update(layer.bottom)
        copy = pb.LayerParameter()
        copy.CopyFrom(layer)
        trunk.append(copy)
    return trunk[::-1], scores


def _spare(layer: pb.LayerParameter) -> None:
    """Biases, scales and shifts learn without weight decay: it would pull them to 0, which helps nothing."""
    if layer.type in WEIGHTED:
        p = layer.inner_product_param if layer.type == "InnerProduct" else layer.convolution_param
        decay = layer.param[0].decay_mult if layer.param else 1.0
        del layer.param[:]
        layer.param.add(lr_mult=1, decay_mult=min(decay, 1.0))
        if p.bias_term:
            layer.param.add(lr_mult=2, decay_mult=0)
    elif layer.type in ("Scale", "Bias", "PReLU"):
        del layer.param[:]
        for _ in range(1 + (layer.type == "Scale" and layer.scale_param.bias_term)):
            layer.param.add(lr_mult=1, decay_mult=0)


def _own_tops(layers: list[pb.LayerParameter]) -> list[pb.LayerParameter]:
    """Gives in-place layers that cannot work in place a top with their own name."""
    now: dict[str, str] = {}
    for layer in layers:
        bottoms = [now.get(name, name) for name in layer.bottom]
        in_place = list(layer.top) == list(layer.bottom)
        layer.bottom[:] = bottoms
        if in_place and layer.type in OWN_TOP:
            now[layer.top[0]] = layer.name
            layer.top[:] = [layer.name]
        elif in_place:
            layer.top[:] = bottoms
        else:
            for top in layer.top:
                now.pop(top, None)
    return layers


def _rename_last(made: Network, last: pb.LayerParameter, outputs: int, scores: str) -> str:
    """Renames and sizes the last layer; returns the scores' blob."""
    old, last.name = last.top[0], made.last
    p = last.inner_product_param if last.type == "InnerProduct" else last.convolution_param
    p.num_output = outputs
    p.weight_filler.CopyFrom(pb.FillerParameter(type="gaussian", std=0.01))
    p.ClearField("bias_filler")
    for layer in made.layers[made.layers.index(last) + 1 :]:
        layer.bottom[:] = [made.last if name == old else name for name in layer.bottom]
        layer.top[:] = [made.last if name == old else name for name in layer.top]
    last.top[:] = [made.last]
    return made.layers[-1].top[0]


def _add_head(made: Network, head: Head, scores: str, spatial: bool) -> None:
    if head.task == CLASSES:
        _add(made, "SoftmaxWithLoss", "loss", [scores, "label"])
        _add(made, "Accuracy", "accuracy", [scores, "label"], include=_in_tests())
        made.notes["accuracy"] = "share of test images whose best class is right; only tests need it"
        if len(head.names) > TOP_5:
            top = pb.AccuracyParameter(top_k=5)
            _add(made, "Accuracy", "accuracy_top_5", [scores, "label"], include=_in_tests(), accuracy_param=top)
            made.notes["accuracy_top_5"] = "share of test images with the right class among the five best"
        made.notes["loss"] = "softmax turns scores into probabilities of the classes, of which exactly one holds"
        return
    if spatial:
        scores = _add(made, "Flatten", "scores", [scores])
        made.notes["scores"] = "one row of scores for each image, as the labels are"
    if head.task == LABELS:
        _add_label_head(made, scores)
    else:
        _add_number_head(made, head, scores)


def _in_tests() -> list[pb.NetStateRule]:
    return [pb.NetStateRule(phase=pb.TEST)]


def _add(made: Network, type: str, name: str, bottoms: list[str], tops: list[str] | None = None, **fields) -> str:
    made.layers.append(pb.LayerParameter(name=name, type=type, bottom=bottoms, top=tops or [name], **fields))
    return made.layers[-1].top[0]


def _add_label_head(made: Network, scores: str) -> None:
    _add(made, "SigmoidCrossEntropyLoss", "loss", [scores, "label"])
    made.notes["loss"] = "a sigmoid for each label: any number of labels may hold for one image"
    decisions = _add(made, "Threshold", "answers", [scores], include=_in_tests())
    made.notes["answers"] = "1 where the score is above 0, which is a probability above 1/2"
    minus = pb.EltwiseParameter(coeff=[1, -1])
    wrong = _add(made, "Eltwise", "difference", [decisions, "label"], include=_in_tests(), eltwise_param=minus)
    made.notes["difference"] = "0 where the answer is right, else 1 or -1"
    wrong = _add(made, "AbsVal", "wrong", [wrong], include=_in_tests())
    right = _add(made, "Power", "right", [wrong], include=_in_tests(), power_param=pb.PowerParameter(scale=-1, shift=1))
    mean = pb.ReductionParameter(operation=pb.ReductionParameter.MEAN)
    _add(made, "Reduction", "label_accuracy", [right], include=_in_tests(), reduction_param=mean)
    made.notes["label_accuracy"] = "share of labels that are answered right; only tests need it"


def _add_number_head(made: Network, head: Head, scores: str) -> None:
    units = "the net learns numbers of mean 0 and spread 1; this turns them into the data's units"
    if head.alike:
        power = pb.PowerParameter(scale=head.scale[0], shift=head.shift[0])
        _add(made, "Power", "numbers", [scores], power_param=power)
        made.notes["numbers"] = units
        weight = float(f"{1 / head.scale[0] ** 2:.6g}")
        _add(made, "EuclideanLoss", "loss", ["numbers", "label"], loss_weight=[weight])
        made.notes["loss"] = f"half the squared error; loss_weight 1 / {head.scale[0]:g}^2 makes it one of spread 1"
        minus = pb.EltwiseParameter(coeff=[1, -1])
        wrong = _add(made, "Eltwise", "difference", ["numbers", "label"], include=_in_tests(), eltwise_param=minus)
        made.notes["difference"] = "answer minus label"
        wrong = _add(made, "AbsVal", "error", [wrong], include=_in_tests())
        mean = pb.ReductionParameter(operation=pb.ReductionParameter.MEAN)
        _add(made, "Reduction", "mae", [wrong], include=_in_tests(), reduction_param=mean)
        made.notes["mae"] = "mean absolute error in the data's units; only tests need it"
        return
    cuts = pb.SliceParameter(axis=1, slice_point=list(range(1, len(head.names))))
    columns = [f"number{i + 1}" for i in range(len(head.names))]
    _add(made, "Slice", "columns", [scores], [f"{column}_scaled" for column in columns], slice_param=cuts)
    made.notes["columns"] = "one blob for each column of the table, because their units differ"
    for column, name, scale, shift in zip(columns, head.names, head.scale, head.shift, strict=True):
        power = pb.PowerParameter(scale=scale, shift=shift)
        _add(made, "Power", column, [f"{column}_scaled"], power_param=power)
        made.notes[column] = f"{name}: {units}"
    _add(made, "Slice", "label_columns", ["label"], [f"{column}_label" for column in columns], slice_param=cuts)
    made.notes["label_columns"] = "the table's columns, one by one"
    for column, name, scale in zip(columns, head.names, head.scale, strict=True):
        weight = float(f"{1 / (len(columns) * scale**2):.6g}")
        _add(made, "EuclideanLoss", f"{column}_loss", [column, f"{column}_label"], loss_weight=[weight])
        made.notes[f"{column}_loss"] = (
            f"{name}: half the squared error, weighted by its spread, so that columns count alike"
        )
    _add(made, "Concat", "numbers", columns)
    made.notes["numbers"] = "all columns in one blob, which is the answer of the deploy net"
    _add(
        made,
        "Silence",
        "silence",
        ["numbers"],
        [],
    )
    made.layers[-1].ClearField("top")
    made.notes["silence"] = "keeps the answers out of the log; the deploy net gives them"


def start_fillers(made: Network) -> None:
    """Initial weights for inputs of spread 1: of every layer but the last, by He et al. 2015."""
    for layer in made.layers:
        if layer.type in WEIGHTED and layer.name != made.last:
            p = layer.inner_product_param if layer.type == "InnerProduct" else layer.convolution_param
            p.weight_filler.CopyFrom(pb.FillerParameter(type="msra"))
            p.ClearField("bias_filler")


def normalize(made: Network, names: Container[str] | None = None) -> None:
    """Replaces LRN by BatchNorm and Scale: with few images, LRN nets of some seeds never leave the level of guessing.
    names: of the layers to replace; None for all."""
    layers: list[pb.LayerParameter] = []
    for layer in made.layers:
        layers.append(layer)
        if layer.type == "LRN" and (names is None or layer.name in names):
            layer.type = "BatchNorm"
            layer.ClearField("lrn_param")
            scale = pb.LayerParameter(name=f"{layer.name}_scale", type="Scale", bottom=layer.top, top=layer.top)
            scale.scale_param.bias_term = True
            _spare(scale)
            layers.append(scale)
    made.layers[:] = layers


def freeze(made: Network, frozen: list[str]) -> None:
    """Layers that keep their weights, and the normalisations that follow them; new layers learn ten times as fast as
    the others."""
    held = set(frozen)
    blobs: set[str] = set()
    for layer in made.layers:
        after = layer.type in ("BatchNorm", "Scale", "Bias", "PReLU") and not blobs.isdisjoint(layer.bottom)
        if layer.name in held or after:
            blobs.update(layer.top)
            for param in layer.param:
                param.lr_mult, param.decay_mult = 0, 0
            if layer.type == "BatchNorm":
                layer.batch_norm_param.use_global_stats = True
        else:
            blobs.difference_update(layer.top)
            if layer.name == made.last:
                for param in layer.param:
                    param.lr_mult *= 10
