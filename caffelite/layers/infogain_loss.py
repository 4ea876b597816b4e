"""InfogainLoss: a log loss with a weight for each pair of label and class."""

import math

import numpy as np

from .. import weights
from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..errors import Where
from ..prototxt import resolve
from .base import require
from .base.facets import Compares, Described
from .base.labels import label_fault
from .base.layer import Shape, register, split_axis
from .loss import Divisor, Loss, unless_ignored


@register
@Compares(classes=True, probability="Softmax")
@Described(not_finite="probabilities of 0")
class InfogainLoss(Loss):
    """loss = -Σ H[label, k] log max(prob_k, 1e-20) / divisor over all labels and classes k, prob the softmax along
    ``axis`` (default 1).

    x (N, C, P...), label (N, P...), integers 0 to C - 1; H (C, C), a third bottom or the binaryproto file
    ``source``; tops: the loss () and optionally the probabilities, like x. Divisor by loss_param.normalization as in
    SoftmaxWithLoss. Errors: labels out of range, an H of another size. As in Caffe.
    """

    field = "infogain_loss_param"
    files = ("source",)
    bottoms, tops = (2, 3), (1, 2)
    constant_bottoms = frozenset({1, 2})
    backward_reads_bottoms = False
    shares_divisor = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.split = n, c, p = split_axis(bottoms[0], axis)
        require.labels(self, bottoms, n * p, axis=axis)
        self.divide = self.divisor(n, n * p)
        self.gains = None
        if len(bottoms) == 2:
            self.gains = self._read(c)
        elif math.prod(bottoms[2]) != c * c:
            expected = f"{c}×{c}, classes by classes"
            raise self.bottom_error(2, "is no infogain matrix", expected=expected, found=list(bottoms[2]))
        self.saved_shapes.update(prob=(bottoms[0], None), slope=((n * p, c), None))
        return [(), bottoms[0]][: len(self.spec.top)]

    def _read(self, classes: int) -> np.ndarray:
        if not self.p.source:
            raise self.error("has no matrix", remedy="give a third bottom, or infogain_loss_param.source")
        file = resolve(self.p.source, self.locate)
        try:
            gains = weights.decode_blob(memoryview(weights.read_bytes(file)))
        except weights.Damaged as damage:
            raise Where(str(file)).error(f"not an infogain matrix: {damage}", expected="a binary BlobProto") from None
        if gains.size != classes * classes:
            what = "its matrix does not fit"
            raise self.error(what, "source", expected=f"{classes}×{classes}", found=list(gains.shape))
        return gains.reshape(classes, classes)

    def build(self, dev: Device) -> None:
        n, c, p = self.split
        rows, ignored = n * p, self.ignored()
        self.softmax, self.op = dev.build(ops.Softmax(n, c, p)), dev.build(ops.Take(c, c, rows))
        self._table = dev.empty((c, c))
        if self.gains is not None:
            dev.upload(self._table, self.gains)
        # Labels that are ignored take row 0 of H with weight 0.
        self._label, self._weight, self._total, self._losses = (dev.empty(rows) for _ in range(4))
        dev.fill(self._weight, 1)
        self._ignore = None
        if ignored is not None:
            texts, constants = [unless_ignored(v, ignored)[0] for v in "t1"], unless_ignored("", ignored)[1]
            self._ignore = [dev.map(Formula(t, ("t",), constants=tuple(constants)), **constants) for t in texts]
        self._prob = dev.empty((n, p, c)) if p > 1 else None
        self._each = dev.channel_sum(Formula("-w * h * log(max(prob, 1e-20))", ("prob", "h", "w")), ("w",), 1, rows, c)
        self._row = dev.channel_sum(Formula("h", ("h",)), (), 1, rows, c)
        text = Formula("w * (prob * total - h)", ("prob", "h", "w", "total"))
        self._slope = dev.channel_map(text, ("w", "total"), 1, rows, c)
        self._sum = dev.sum(Formula("x", ("x",)))
        self._dx = dev.map(Formula("slope * dloss / divisor", ("slope",), ("dloss", "divisor")))
        self._divisor = Divisor(dev, self.divide, ignored, self.shares)

    def forward(self, x: list, y: list) -> None:
        n, c, p = self.split
        prob, gains, label, dev = self.saved["prob"], self.saved["slope"], x[1], self.dev
        self.softmax.forward(x[0], prob)
        if len(y) > 1:
            dev.copy(prob, y[1])
        if p > 1:  # classes last, as in the rows of H
            dev.assign(prob.reshape(n, c, p).transpose(0, 2, 1), self._prob)
            prob = self._prob
        if self._ignore:
            self._ignore[0](label, self._label)
            self._ignore[1](label, self._weight)
            label = self._label
        self.op.forward(self._table if self.gains is not None else x[2].reshape(c, c), label, gains)
        self._each(prob, gains, self._weight, self._losses)
        self._sum(self._losses, y[0])
        self._divisor.count(x[1])
        self._divisor.divide(y[0])
        self._row(gains, self._total)
        self._slope(prob, gains, self._weight, self._total, gains)

    def settle(self, loss) -> None:
        self._divisor.settle(loss)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        n, c, p = self.split
        slope = self.saved["slope"]
        if p > 1:
            self.dev.assign(slope.reshape(n, p, c).transpose(0, 2, 1), dx[0].reshape(n, c, p))
            slope = dx[0]
        self._dx(slope, dy[0], self._divisor.value, dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self.op, self.split)
