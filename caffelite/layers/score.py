"""Softmax and Accuracy: convert scores to probabilities and to an accuracy."""

from __future__ import annotations

import math

from ..devices.formula import Formula
from ..devices.protocol import Device
from .layer import Layer, Shape, register, split_axis


def check_labels(layer: Layer, bottoms: list[Shape], axis: int) -> None:
    """Labels must be one for each score vector: the scores' axes before and after ``axis``."""
    n, _, p = split_axis(bottoms[0], axis)
    if math.prod(bottoms[1]) != n * p:
        expected = (
            f'{n * p} labels, one for each vector of "{layer.spec.bottom[0]}" {list(bottoms[0])} along axis {axis}'
        )
        raise layer.bottom_error(
            1, "does not fit", expected=expected, found=f"{math.prod(bottoms[1])} {list(bottoms[1])}"
        )


def label_fault(layer: Layer, op, shape: tuple[int, int, int], bottom: int = 1) -> str | None:
    """The error for the first label that is no class, where the operation saw one. bottom: of the labels."""
    place = int(layer.dev.download(op.bad)[0])
    if not place:
        return None
    sample, position = divmod(place - 1, shape[2])
    spot = f"sample {sample} of the batch" + (f", position {position}" if shape[2] > 1 else "")
    scores, labels = layer.spec.bottom[0], layer.spec.bottom[bottom]
    return (
        f'a label in bottom "{labels}" is no class ({spot}); expected integers 0 to {shape[1] - 1}, the '
        f'channels of "{scores}"'
    )


@register
class Softmax(Layer):
    """y = exp(x) / Σ exp(x) along ``axis`` (default 1); x, y of one shape. As in Caffe."""

    field = "softmax_param"
    in_place = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.summed = self.axis(self.p.axis, len(bottoms[0]))
        self.split, self.couples_samples = split_axis(bottoms[0], self.summed), self.summed == 0
        return [bottoms[0]]

    def divisible(self, axis: int) -> bool:
        return axis != self.summed

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self.op = dev.softmax(*self.split)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(y[0], dy[0], dx[0])


@register
class Accuracy(Layer):
    """The share of labels that are among their top_k scores (default 1) along ``axis`` (default 1); ignore_label does
    not count.

    x (N, C, P...), label (N, P...); tops: the score (), and optionally each class's own share (C). min_is_better
    (NormFace): the lowest scores instead, as of distances. A tie counts as wrong, as in Caffe, and so does a NaN, which
    Caffe counted as right. Errors: labels outside 0 to C - 1, top_k above C.
    """

    field = "accuracy_param"
    bottoms, tops = (2, 2), (1, 2)
    differentiable = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.scores, self.split = bottoms[0], split_axis(bottoms[0], axis)
        self.couples_samples = axis == 0 or self.p.HasField("ignore_label") or len(self.spec.top) > 1
        check_labels(self, bottoms, axis)
        if not 1 <= self.p.top_k <= self.split[1]:
            raise self.error(
                "top_k must be within the number of classes",
                "top_k",
                expected=f"1 to {self.split[1]}",
                found=self.p.top_k,
            )
        return [(), (self.split[1],)][: len(self.spec.top)]

    def divisible(self, axis: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self.op = dev.accuracy(
            *self.split, self.p.top_k, self.p.ignore_label if self.p.HasField("ignore_label") else None
        )
        if self.p.min_is_better:
            self._negate, self._negated = dev.map(Formula("-x", ("x",))), dev.empty(self.scores)

    def forward(self, x: list, y: list) -> None:
        scores = x[0]
        if self.p.min_is_better:
            self._negate(scores, self._negated)
            scores = self._negated
        self.op.forward(scores, x[1], y[0], y[1] if len(y) > 1 else None)

    def counted(self, top: int):
        if not top and not self.p.HasField("ignore_label"):
            return None  # every label counts
        counts = self.dev.download(self.op.counts)
        return counts if top else counts.sum()

    def faults(self) -> str | None:
        return label_fault(self, self.op, self.split)
