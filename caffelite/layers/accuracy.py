"""Accuracy: the fraction of samples whose label is among the highest scores."""

from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.facets import Compares, Described
from .base.labels import label_fault
from .base.layer import Layer, Shape, register, split_axis


@register
@Compares(classes=True, scores=True)
@Described(logged=True)
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
    divisible_axes = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.scores, self.split = bottoms[0], split_axis(bottoms[0], axis)
        require.labels(self, bottoms, self.split[0] * self.split[2], axis=axis)
        self.couples_samples = axis == 0 or self.p.HasField("ignore_label") or len(self.spec.top) > 1
        if not 1 <= self.p.top_k <= self.split[1]:
            raise self.error(
                "top_k must be within the number of classes",
                "top_k",
                expected=f"1 to {self.split[1]}",
                found=self.p.top_k,
            )
        return [(), (self.split[1],)][: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        ignore = self.p.ignore_label if self.p.HasField("ignore_label") else None
        self.op = dev.build(ops.Accuracy(*self.split, self.p.top_k, ignore))
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
