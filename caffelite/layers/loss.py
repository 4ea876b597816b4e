"""Losses: one number for a batch, of scores or features against labels or other features."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.types import Array, Kernel
from .base import class_weights, require
from .base.compilation import Which
from .base.config import GRADIENT, SavedBlobs
from .base.division import SampleShares, SharedCount, SharesSamples
from .base.facets import Compares, Described
from .base.labels import LabelIndex, label_fault
from .base.layer import Layer, Shape, register, split_axis
from .base.state import SavesByConfig

LEAST = "1.2e-38"  # of a probability, whose logarithm is finite
TOLERANCE = 1e-3  # of the mean sum of a distribution


class SoftTargets:
    """loss = -Σ t log softmax(x) / divisor for targets t like x (N, C, P...), which sum to 1 over the classes; each is
    (1 - smoothing) t + smoothing / C before."""

    def __init__(self, dev: Device, split: tuple[int, int, int], divisor: float, smoothing: float):
        constants = {"smoothing": smoothing, "classes": split[1]}
        target = "((1 - smoothing) * t + smoothing / classes)"
        self._mean = dev.empty(1)
        dev.fill(self._mean, 1)
        self._add = dev.sum(Formula("t", ("t",)), 1 / (split[0] * split[2]))
        self._dev = dev
        self._softmax = dev.build(ops.Softmax(*split))
        term = Formula(f"-{target} * log(max(p, {LEAST}))", ("p", "t"), constants=tuple(constants))
        self._loss = dev.sum(term, 1 / divisor, **constants)
        constants["divisor"] = divisor
        slope = Formula(f"(p - {target}) * dloss / divisor", ("p", "t"), ("dloss",), tuple(constants))
        self._slope = dev.map(slope, **constants)

    def forward(self, x: Array, targets: Array, prob: Array, loss: Array) -> None:
        self._softmax.forward(x, prob)
        self._add(targets, self._mean)
        self._loss(prob, targets, loss)

    def backward(self, prob: Array, targets: Array, dloss: Array, dx: Array) -> None:
        self._slope(prob, targets, dloss, dx)

    def fault(self) -> str | None:
        """What is wrong with the targets of the last forward pass: they do not sum to 1 in the mean."""
        mean = float(self._dev.download(self._mean)[0])
        return None if abs(mean - 1) <= TOLERANCE else f"sum to {mean:g} in the mean; expected 1 for each sample"


LOSS = pb.LossParameter


class Loss(SharesSamples, Layer):
    """The base class of losses: the first top is the loss, () with loss_weight 1, labels in the second bottom."""

    bottoms = (2, 2)
    loss = True
    files = ("loss_param.class_weight_source",)
    constant_bottoms = frozenset({1})
    constant_tops = frozenset({1})
    default_normalization = LOSS.VALID
    takes_class_weights = False
    takes_ignore_mode = False
    shares_divisor = False  # whether passes that share a batch agree on its divisor
    adds_loss = False  # forward adds the first top, weighted, to the net's loss
    total: tuple[Any, ...] = ()  # where it does: the net's loss, and the weight
    classes = 0  # the number of class weights, where it takes them
    class_weights: np.ndarray | None = None  # None: all 1, or not measured yet
    couples_samples = False
    backward_reads_tops = False
    divisible_axes: Which = False

    def setup(self) -> None:
        class_weights.check(self)
        if self.spec.loss_param.label_smoothing and self.spec.type != "SoftmaxWithLoss":
            what = "takes no label_smoothing"
            raise self.error(what, "loss_param", "label_smoothing", expected="SoftmaxWithLoss", outer=True)
        if self.spec.loss_param.HasField("ignore_mode") and not self.takes_ignore_mode:
            raise self.error("takes no ignore_mode", "loss_param", "ignore_mode", remedy="leave it out", outer=True)

    def normalization(self) -> int:
        """FULL, VALID, BATCH_SIZE, NONE or PRE_FIXED; the old switch ``normalize`` means VALID or BATCH_SIZE."""
        p = self.spec.loss_param
        if p.HasField("normalization") or not p.HasField("normalize"):
            return p.normalization if p.HasField("normalization") else self.default_normalization
        return LOSS.VALID if p.normalize else LOSS.BATCH_SIZE

    def ignored(self) -> int | None:
        """The label that has no loss; None where all count."""
        p = self.spec.loss_param
        return p.ignore_label if p.HasField("ignore_label") else None

    @property
    def weighted_mean(self) -> bool:
        """Whether the divisor of VALID is the sum of class weights."""
        return False

    def divisor(self, batch: int, labels: int) -> float | None:
        """The divisor of the sum, at least 1; None where it is the number of labels that are not ignored."""
        kind = self.normalization()
        some = kind == LOSS.VALID and (self.ignored() is not None or self.weighted_mean)
        self.couples_samples = some or kind in (LOSS.PRE_FIXED, LOSS.NONE)
        if kind == LOSS.PRE_FIXED:
            fixed = self.spec.loss_param.pre_fixed_normalizer
            if not 0 < fixed < math.inf:
                where, expected = ("loss_param", "pre_fixed_normalizer"), "a finite number above 0"
                raise self.error(f"a bad {where[1]}", *where, expected=expected, found=f"{fixed:g}", outer=True)
            return max(1.0, fixed)
        if some:
            return None
        divisors: dict[int, int] = {LOSS.BATCH_SIZE: batch, LOSS.NONE: 1}
        return max(1.0, divisors.get(kind, labels))

    def can_share(self) -> bool:
        """Whether the divisor is fixed, or the passes count labels together."""
        return self.shares_divisor

    def share(self, shares: SampleShares) -> None:
        super().share(shares)
        self.requires_host |= self.settles()

    def settles(self) -> bool:
        return self.couples_samples and self.normalization() not in (LOSS.NONE, LOSS.PRE_FIXED)


def unless_ignored(text: str, ignored: int | None) -> tuple[str, dict[str, float]]:
    """The text of a formula that is 0 where the label t, cut to an integer as in Caffe, is ignored; its constants."""
    if ignored is None:
        return text, {}
    low, high = ignored - (ignored <= 0), ignored + (ignored >= 0)
    first, last = "<=" if ignored > 0 else "<", "<=" if ignored < 0 else "<"
    return f"where(low {first} t {last} high, 0, {text})", {"low": low, "high": high}


class Divisor:
    """The divisor of a loss, a scalar on the device: fixed, or where ``fixed`` is None the number of labels that are
    not ignored, at least 1.

    weights (C), with the number of labels: it is the sum of their weights instead, 1 where that is 0. shares: of passes
    that share a batch; the divisor is that of the whole batch, over their number, so that the mean of the passes'
    losses is the loss of the batch.
    """

    def __init__(
        self,
        dev: Device,
        fixed: float | None,
        ignored: int | None,
        shares: SharedCount | None = None,
        weights: tuple[Array, int] | None = None,
    ):
        self.value, self._dev, self._shares = dev.zeros(1), dev, shares
        self._divide = dev.map(Formula("loss / divisor", ("loss", "divisor")))
        self._count: Kernel | None = None
        if fixed is not None:
            dev.fill(self.value, fixed / (shares.count if shares else 1))
        elif weights is not None:
            self._count = _weight_sum(dev, *weights, ignored)
            self._at_least = dev.map(Formula("where(d > 0, d, 1)", ("d",)))
        elif ignored is not None:
            text, constants = unless_ignored("1", ignored)
            self._count = dev.sum(Formula(text, ("t",), constants=tuple(constants)), **constants)
            self._at_least = dev.map(Formula("max(d, 1)", ("d",)))
        if shares:
            self._multiply = dev.map(Formula("loss * divisor", ("loss", "divisor")))
            self._share = dev.map(Formula("d / n", ("d",), constants=("n",)), n=shares.count)

    def count(self, labels) -> None:
        if not self._count:
            return
        self._count(labels, self.value)
        if self._shares:
            self._shares.add_up(self.value, self._dev)
        self._limit()

    def _limit(self) -> None:
        self._at_least(self.value, self.value)
        if self._shares:
            self._share(self.value, self.value)

    def divide(self, loss) -> None:
        self._divide(loss, self.value, loss)

    def settle(self, loss) -> None:
        """Divides a loss by what all micro-batches counted, in place of its own count."""
        assert self._shares
        self._multiply(loss, self.value, loss)
        self._dev.upload(self.value, self._shares.settled().reshape(1))
        self._limit()
        self.divide(loss)


def _weight_sum(dev: Device, weights: Array, labels: int, ignored: int | None) -> Callable[[Array, Array], None]:
    """``run(labels, out)``: out (1) = the sum of the weights (C) of labels that are not ignored."""
    take, index, each = dev.build(ops.Take(weights.size, 1, labels)), dev.empty(labels), dev.empty(labels)
    known, constants = unless_ignored("t", ignored)
    counted = unless_ignored("w + 0 * t", ignored)[0]
    index_of = dev.map(Formula(known, ("t",), constants=tuple(constants)), **constants)
    total = dev.sum(Formula(counted, ("w", "t"), constants=tuple(constants)), **constants)

    def run(label: Array, out: Array) -> None:
        index_of(label, index)
        take.forward(weights.reshape(-1, 1), index, each)
        total(each, label, out)

    return run


@register
@Compares(classes=True, probability="Softmax")
class SoftmaxWithLoss(SavesByConfig, Loss):
    """loss = -Σ log softmax(x)[label] / divisor along softmax_param.axis (default 1).

    x (N, C, P...), label (N, P...), integers 0 to C - 1; tops: the loss () and optionally the probabilities, like
    x, and each label's loss (N, 1, P...), 0 where it is ignored. Divisor by loss_param.normalization: VALID (default:
    labels not ignored), FULL (N·P), BATCH_SIZE (N), NONE (1), PRE_FIXED (pre_fixed_normalizer). With class weights
    (loss_param.class_weight and its like) each term of the loss is multiplied by w[label], and VALID is Σ w[label];
    with caffe-segnet's (weight_by_label_freqs, class_weighting) VALID stays the number of labels, as in
    alexgkendall/caffe-segnet src/caffe/layers/softmax_loss_layer.cpp. With loss_param.label_smoothing ε, in TRAIN:
    (1 - ε) of that loss and ε of the mean of -log softmax(x) over the classes. Labels like x are distributions over the
    classes, as mixup_param makes them: loss = -Σ label · log softmax(x) / divisor, without class weights, ignored
    labels and a third top. Errors: labels out of range, distributions that do not sum to 1.
    """

    field = "softmax_param"
    tops = (1, 3)
    constant_tops = frozenset({1, 2})
    adds_loss = takes_class_weights = shares_divisor = True
    backward_reads_bottoms = (1,)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.split = n, self.classes, p = split_axis(bottoms[0], axis)
        self.soft = self.classes > 1 and math.prod(bottoms[1]) == math.prod(bottoms[0])
        if not self.soft:
            require.labels(self, bottoms, n * p, axis=axis)
        self.class_weights = class_weights.read(self, self.classes)
        self.divide = self.divisor(n, n * p)
        self.smoothing = self._check_smoothing() if self.phase == pb.TRAIN else 0.0
        if self.soft:
            self._check_soft()
        self.counts_labels = self.divide is None and self.spec.loss_param.weight_by_label_freqs
        self.adds_loss = not (self.counts_labels or self.smoothing or self.soft or self.shares)
        self.saved_shapes["prob"] = (bottoms[0], None)
        self.requires_host = len(self.spec.top) > 2
        each = (*bottoms[0][:axis], 1, *bottoms[0][axis + 1 :])
        return [(), bottoms[0], each][: len(self.spec.top)]

    def _check_soft(self) -> None:
        p = self.spec.loss_param
        if self.ignored() is not None or self.weighted_mean or p.weight_by_label_freqs or len(self.spec.top) > 2:
            what = f'the labels "{self.spec.bottom[1]}" are distributions, as of mixup_param'
            remedy = "leave out class weights, ignore_label and a third top"
            raise self.error(what, "bottom", 1, remedy=remedy, outer=True)

    def _check_smoothing(self) -> float:
        p = self.spec.loss_param
        if not 0 <= p.label_smoothing <= 1:
            found = f"{p.label_smoothing:g}"
            raise self.error(
                "a bad label_smoothing",
                "loss_param",
                "label_smoothing",
                expected="from 0 to 1",
                found=found,
                outer=True,
            )
        if p.label_smoothing and (self.ignored() is not None or self.weighted_mean or p.weight_by_label_freqs):
            what = "label_smoothing excludes class weights and ignore_label"
            raise self.error(what, "loss_param", "label_smoothing", remedy="leave one out", outer=True)
        return p.label_smoothing

    def saved_blobs(self) -> SavedBlobs:
        fixed = self.divide is not None and not self.shares
        if not self.config.traits.losses_bring_gradients or not fixed or self.smoothing or self.soft:
            return self.saved_shapes
        return {**self.saved_shapes, GRADIENT: self.saved_shapes["prob"]}

    @property
    def weighted_mean(self) -> bool:
        return bool(class_weights.given(self.spec.loss_param))

    def can_share(self) -> bool:
        return super().can_share() and not self.smoothing

    def share(self, shares: SampleShares) -> None:
        super().share(shares)
        self.adds_loss = False

    def build(self, dev: Device) -> None:
        divide, self._labels = self.divide, None
        self._gradient: list = []
        if self.soft and divide:
            share = self.shares.count if self.shares else 1
            self.targets = SoftTargets(dev, self.split, divide / share, self.smoothing)
            return
        weights = class_weights.upload(self, dev)
        if self.counts_labels or self.shares:
            labels = self.split[0] * self.split[2]
            by_weight = (weights, labels) if weights is not None and self.weighted_mean else None
            self._labels = Divisor(dev, divide, self.ignored(), self.shares, by_weight)
            divide = 1.0
        self.op = dev.build(ops.SoftmaxLoss(*self.split, self.ignored(), divide, weights))
        self._gradient = [self.saved[GRADIENT]] if GRADIENT in self.saved else []
        if self.smoothing:
            self._build_smoothing(dev)

    def _build_smoothing(self, dev: Device) -> None:
        constants = {"smoothing": self.smoothing, "classes": self.classes}
        self._others = dev.zeros(1)  # the loss of a target that is alike for all classes
        self._sum = dev.sum(Formula("-log(max(p, 1.2e-38))", ("p",)), 1 / self.classes)
        mixed = Formula(
            "(1 - smoothing) * loss + smoothing * others / divisor",
            ("loss", "others", "divisor"),
            constants=("smoothing",),
        )
        self._mix = dev.map(mixed, smoothing=self.smoothing)
        slope = "(1 - smoothing) * own + smoothing * (p - 1 / classes) * dloss / divisor"
        self._dx = dev.map(Formula(slope, ("own", "p"), ("dloss", "divisor"), tuple(constants)), **constants)

    def forward(self, x: list, y: list) -> None:
        prob = self.saved["prob"]
        if self.soft:
            self.targets.forward(x[0], x[1], prob, y[0])
        elif self.smoothing:
            self.op.forward(x[0], x[1], prob, y[0])
            self._sum(prob, self._others)
            self._mix(y[0], self._others, self.op.divisor, y[0])
        elif self._labels is None:
            self.op.forward(x[0], x[1], prob, y[0], *self.total, *self._gradient)
        else:
            self._forward_by_labels(x, y[0], self._labels)
        if len(y) > 1:
            self.dev.copy(prob, y[1])
        if len(y) > 2:
            self._write_losses(prob, x[1], y[2])

    def _write_losses(self, prob, label, losses) -> None:
        """Each label's loss, by the host."""
        n, c, p = self.split
        probs, labels = self.dev.download(prob).reshape(n, c, p), self.dev.download(label).reshape(n, 1, p)
        valid = (labels >= 0) & (labels < c)
        if self.ignored() is not None:
            valid &= labels != self.ignored()
        own = np.take_along_axis(probs, np.where(valid, labels, 0).astype(np.intp), 1)
        each = np.where(valid, -np.log(np.maximum(own, np.finfo(np.float32).tiny)), 0)
        self.dev.upload(losses, each.reshape(losses.shape))

    def _forward_by_labels(self, x: list, loss, labels: Divisor) -> None:
        """The sum of weighted losses over a divisor that is counted apart."""
        self.op.forward(x[0], x[1], self.saved["prob"], loss)
        labels.count(x[1])
        labels.divide(loss)
        self.dev.copy(labels.value, self.op.divisor)  # which backward reads

    def settle(self, loss) -> None:
        assert self._labels
        self._labels.settle(loss)
        self.dev.copy(self._labels.value, self.op.divisor)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.soft:
            return self.targets.backward(self.saved["prob"], x[1], dy[0], dx[0])
        if not self._gradient:
            self.op.backward(self.saved["prob"], x[1], dy[0], dx[0])
        if self.smoothing:
            self._dx(dx[0], self.saved["prob"], dy[0], self.op.divisor, dx[0])

    def counted(self, top: int):
        return None if top or self.divide is not None else self.dev.download(self.op.divisor)[0]

    def faults(self) -> str | None:
        if not self.soft:
            return label_fault(self, self.op, self.split)
        fault = self.targets.fault()
        return f'the labels "{self.spec.bottom[1]}" are distributions over the classes: they {fault}' if fault else None


@register
@Compares(probability="Sigmoid")
@Described(not_finite="targets that are no probabilities")
class SigmoidCrossEntropyLoss(Loss):
    """loss = -Σ (t log σ(x) + (1 - t) log(1 - σ(x))) / divisor; x and targets t in [0, 1] of one count, the divisor N
    (BATCH_SIZE).

    Other divisors by loss_param.normalization: FULL (all values), VALID (targets that are not ignored), NONE (1). A
    target is ignored if it is ignore_label without its fraction. As in Caffe. With class weights
    (loss_param.class_weight and its like) w of axis 1 of x: t log σ(x) is multiplied by w; the divisor does not
    change.
    """

    default_normalization = LOSS.BATCH_SIZE
    takes_class_weights = shares_divisor = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.split = split_axis(bottoms[0], 1) if len(bottoms[0]) > 1 else (math.prod(bottoms[0]), 1, 1)
        self.classes = self.split[1]
        self.class_weights = class_weights.read(self, self.classes)
        self.divide = self.divisor(bottoms[0][0] if bottoms[0] else 1, math.prod(bottoms[0]))
        return [()]

    def build(self, dev: Device) -> None:
        ignored = self.ignored()
        counts, constants = unless_ignored("{}", ignored)
        each = counts.format("max(x, 0) - x * t + log1p(exp(-abs(x)))")
        slope = counts.format("(1 / (1 + exp(-x)) - t) * dloss / divisor")
        self._divisor = Divisor(dev, self.divide, ignored, self.shares)
        self._weights = class_weights.upload(self, dev)
        if self._weights is not None:
            return self._build_weighted(dev, counts, constants)
        self._sum = dev.sum(Formula(each, ("x", "t"), constants=tuple(constants)), **constants)
        self._dx = dev.map(Formula(slope, ("x", "t"), ("dloss", "divisor"), tuple(constants)), **constants)

    def _build_weighted(self, dev: Device, counts: str, constants: dict[str, float]) -> None:
        each = counts.format("(1 - t) * x + (1 + (w - 1) * t) * (log1p(exp(-abs(x))) + max(-x, 0))")
        slope = counts.format("(1 - t - (1 + (w - 1) * t) / (1 + exp(x))) * dloss / divisor")
        named, split = tuple(constants), self.split
        self._by_class, self._sum = dev.empty(self.classes), dev.sum(Formula("each", ("each",)))
        self._each = dev.channel_sum(Formula(each, ("x", "t", "w"), constants=named), ("w",), *split, **constants)
        formula = Formula(slope, ("x", "t", "w"), ("dloss", "divisor"), named)
        self._dx = dev.channel_map(formula, ("w",), *split, **constants)

    def forward(self, x: list, y: list) -> None:
        self._divisor.count(x[1])
        if self._weights is None:
            self._sum(x[0], x[1], y[0])
        else:
            self._each(x[0], x[1], self._weights, self._by_class)
            self._sum(self._by_class, y[0])
        self._divisor.divide(y[0])

    def settle(self, loss) -> None:
        self._divisor.settle(loss)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        weights = () if self._weights is None else (self._weights,)
        self._dx(x[0], x[1], *weights, dy[0], self._divisor.value, dx[0])


@register
@Compares(values=True)
class EuclideanLoss(Loss):
    """loss = Σ (a - b)² / 2N; both bottoms (N, ...) of one count, both get gradients. As in Caffe."""

    constant_bottoms = frozenset()

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.n = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def build(self, dev: Device) -> None:
        self._sum = dev.sum(Formula("(a - b) * (a - b)", ("a", "b")), 0.5 / self.n)
        self._slope = dev.map(Formula("(a - b) * dloss / n", ("a", "b"), ("dloss",), ("n",)), n=self.n)

    def forward(self, x: list, y: list) -> None:
        self._sum(x[0], x[1], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in (0, 1):
            if dx[i] is not None:
                self._slope(x[i], x[1 - i], dy[0], dx[i])


class PerClass(Loss):
    """loss = Σ each / N over scores (N, C...) and labels (N), integers 0 to C - 1 that index the values of a
    sample.

    ``formulas`` gives each and its slope, of the score x, its class k and the label t.
    """

    backward_reads_bottoms = (0,)

    def formulas(self) -> tuple[str, str]:
        raise NotImplementedError

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        self.split = n, math.prod(bottoms[0]) // n, 1
        require.labels(self, bottoms, n)
        return [()]

    def build(self, dev: Device) -> None:
        n, c, _ = self.split
        each, slope = self.formulas()
        self._index, self._rows = LabelIndex(dev, n, c), dev.empty(n)
        self._each = self._index.sum(each, ("x",))
        self._sum = dev.sum(Formula("row", ("row",)), 1 / n)
        self._dx = self._index.map(f"({slope}) * dloss / n", ("x",), scalars=("dloss",), n=n)

    def forward(self, x: list, y: list) -> None:
        self._index.check(x[1])
        self._each(x[0], self._index.classes, self._index.labels, self._rows)
        self._sum(self._rows, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(x[0], self._index.classes, self._index.labels, dy[0], dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self._index.op, self.split)


@register
@Compares(classes=True)
class HingeLoss(PerClass):
    """loss = Σ max(0, 1 + s x)^norm / N, s = -1 for the label's class and 1 for the others; norm L1 (default) or L2,
    the square.

    x (N, C...), label (N). Errors: labels that are no class. As in Caffe.
    """

    field = "hinge_loss_param"

    def formulas(self) -> tuple[str, str]:
        margin, side = "max(1 + where(t == k, -x, x), 0)", "where(t == k, -1, 1)"
        if self.p.norm == pb.HingeLossParameter.L2:
            return f"{margin} * {margin}", f"2 * {margin} * {side}"
        return margin, f"sign({margin}) * {side}"


@register
@Compares(classes=True)
@Described(not_finite="probabilities that are 0 or no probabilities")
class MultinomialLogisticLoss(PerClass):
    """loss = -Σ log max(x[label], 1e-20) / N over probabilities x (N, C...), label (N). Errors: labels that are no
    class. As in Caffe."""

    def formulas(self) -> tuple[str, str]:
        return "where(t == k, -log(max(x, 1e-20)), 0)", "where(t == k, -1 / max(x, 1e-20), 0)"


@register
@Compares(pairs=True)
class ContrastiveLoss(Loss):
    """loss = Σ each / 2N, each = d² for a similar pair, else max(margin - d, 0)², d = |a - b| (Euclidean, per
    sample).

    a, b (N, C...), similarity label (N), 0 for dissimilar. Defaults: margin 1. legacy_version: max(margin - d², 0) for
    dissimilar pairs. Source: Hadsell et al. 2006, as in Caffe.
    """

    field = "contrastive_loss_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.n = n = bottoms[0][0] if bottoms[0] else 1
        self.d = math.prod(bottoms[0]) // n
        for i, count in ((1, bottoms[1][:1] or (1,)), (2, (math.prod(bottoms[2]),))):
            if count != (n,):
                what = f'{n}, one a sample of "{self.spec.bottom[0]}" {list(bottoms[0])}'
                raise self.bottom_error(i, "does not fit", expected=what, found=list(bottoms[i]))
        self.saved_shapes["squares"] = ((n,), None)
        return [()]

    def build(self, dev: Device) -> None:
        gap = "max(margin - q, 0)" if self.p.legacy_version else "max(margin - sqrt(q), 0)"
        each = gap if self.p.legacy_version else f"{gap} * {gap}"
        # Caffe adds 0.0001 to a distance that it divides by.
        slope = f"sign({gap})" if self.p.legacy_version else f"{gap} / (sqrt(q) + 1e-4)"
        self._squares = dev.channel_sum(Formula("(a - b) * (a - b)", ("a", "b")), (), 1, self.n, self.d)
        margin = {"margin": self.p.margin}
        self._sum = dev.sum(
            Formula(f"where(abs(t) >= 1, q, {each})", ("q", "t"), constants=("margin",)), 0.5 / self.n, **margin
        )
        text = f"where(abs(t) >= 1, 1, -({slope})) * (a - b) * dloss / n"
        self._dx = dev.channel_map(
            Formula(text, ("a", "b", "q", "t"), ("dloss",), ("margin", "n")),
            ("q", "t"),
            1,
            self.n,
            self.d,
            n=self.n,
            **margin,
        )

    def forward(self, x: list, y: list) -> None:
        self._squares(x[0], x[1], self.saved["squares"])
        self._sum(self.saved["squares"], x[2], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in (0, 1):
            if dx[i] is not None:
                self._dx(x[i], x[1 - i], self.saved["squares"], x[2], dy[0], dx[i])
