"""Class weights of losses: from fields, a text file, or measured from the labels of the training set."""

import math
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, file_types, inputs
from ...devices.protocol import Device
from ...devices.types import Array
from ...errors import Where
from ...prototxt import resolve
from .message import LayerMessage

FIELDS = ("class_weight", "class_weight_source", "class_weight_balanced")
REMEDY = "give class_weight once for each class, class_weight_source or class_weight_balanced"


def given(p: pb.LossParameter) -> list[str]:
    """The fields of a loss that ask for class weights."""
    return [name for name in FIELDS if getattr(p, name)]


def check(layer: Any) -> None:
    """Errors: a loss that takes no class weights; more than one of the fields."""
    names = given(layer.spec.loss_param)
    if layer.spec.loss_param.weight_by_label_freqs:
        if layer.spec.type != "SoftmaxWithLoss":
            what = "takes no weight_by_label_freqs"
            raise layer.error(what, "loss_param", "weight_by_label_freqs", expected="SoftmaxWithLoss", outer=True)
        names = ["weight_by_label_freqs", *names]
    if names and not layer.takes_class_weights:
        expected = "SoftmaxWithLoss or SigmoidCrossEntropyLoss"
        raise layer.error("takes no class weights", "loss_param", names[0], expected=expected, outer=True)
    if len(names) > 1:
        fields = ", ".join(f"{name} ({layer.locate('loss_param', name)})" for name in names)
        what = "several kinds of class weights"
        raise layer.error(what, "loss_param", names[1], found=fields, remedy=REMEDY, outer=True)


def read(layer: Any, classes: int) -> np.ndarray | None:
    """The class weights (C, float32) that fields or a file give; those that were measured before, or None. Errors:
    another number of weights than classes, values below 0 or not finite, no weight above 0."""
    p = layer.spec.loss_param
    if p.weight_by_label_freqs:
        values, where = list(p.class_weighting), layer.locate("loss_param", "weight_by_label_freqs")
    elif not p.class_weight and not p.class_weight_source:
        return layer.class_weights
    elif p.class_weight:
        values, where = list(p.class_weight), layer.locate("loss_param", "class_weight")
    else:
        values, where = of_file(layer, p.class_weight_source, "loss_param", "class_weight_source")
    what = f'layer "{layer.name}" ({layer.spec.type}): class weights'
    if len(values) != classes:
        raise where.error(f"{what} do not fit", expected=f"{classes}, one a class", found=len(values))
    for i, value in enumerate(values):
        if not 0 <= value < math.inf:
            raise where.error(f"{what}: weight {i} is not a finite number from 0", found=f"{value:g}")
    if not any(values):
        raise where.error(f"{what} are all 0", remedy="give at least one class a weight above 0")
    return np.array(values, np.float32)


def of_file(layer: LayerMessage, name: str, message: str, field: str) -> tuple[list[float], Where]:
    """The numbers on the lines of the file that a field of a message names, and the file."""
    position = layer.locate(message, field)
    path = resolve(name, layer.locate)
    try:
        lines = file_types.read_listing(path).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what = f"cannot read {field} {path}: {inputs.reason(mistake)}"
        raise position.error(what, expected="a text file with one number on each line") from None
    values = []
    for number, line in enumerate(lines, 1):
        if text := line.strip():
            try:
                values.append(float(text))
            except ValueError:
                raise Where(str(path), number).error("not a weight", expected="a number", found=text[:40]) from None
    return values, Where(str(path))


def upload(layer: Any, dev: Device) -> Array | None:
    """The class weights on a device; None where there are none. Errors: they were to be measured, but were not."""
    if layer.class_weights is None:
        if layer.spec.loss_param.class_weight_balanced:
            what, remedy = "class_weight_balanced needs the labels of a training set", "give class_weight instead"
            raise layer.error(what, "loss_param", "class_weight_balanced", remedy=remedy, outer=True)
        return None
    weights = dev.empty(layer.classes)
    dev.upload(weights, layer.class_weights)
    return weights


def replace(message: pb.LayerParameter, values: np.ndarray) -> None:
    """Writes measured class weights into a layer's message, in place of the request to measure them."""
    message.loss_param.ClearField("class_weight_balanced")
    message.loss_param.class_weight[:] = values.tolist()
