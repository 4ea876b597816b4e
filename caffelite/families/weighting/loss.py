"""Losses that weigh their labels, classes or pixels."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.array_loss import ArrayLoss, softplus
from ...layers.base import class_weights, require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.facets import Compares
from ...layers.base.layer import Shape, register, split_axis
from ...layers.loss import LOSS


class SoftmaxTerms(ArrayLoss):
    """loss = Σ w · term(p) / divisor, p the probability of a label by the softmax of x along an axis."""

    softmax_axis = 1
    first_label = 0
    shares_divisor = True
    _total = 1.0  # the divisor of the last forward pass

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.softmax_axis, len(bottoms[0]))
        self.split = n, self.count, p = split_axis(bottoms[0], axis)
        require.labels(self, bottoms, n * p, axis=axis)
        self.divide = self.divisor(n, n * p)
        return [(), bottoms[0]][: len(self.spec.top)]

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        """Of the logarithm of the probability."""
        raise NotImplementedError

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        """The derivative of ``term`` by the logarithm."""
        raise NotImplementedError

    def weights(self, xp: ModuleType, x: tuple) -> Any:
        """The weight of each label."""
        return 1.0

    def label_total(self, xp: ModuleType, weights: Any, counts: Any) -> Any:
        """The divisor where it is not fixed, or 1 where this is less: the labels that count."""
        return counts.sum()

    def _divisor_of(self, xp: ModuleType, weights: Any, counts: Any) -> Any:
        """The divisor of a forward pass. Of passes that share a batch: that of the whole batch, over their number."""
        if self.divide is not None:
            return self.divide / (self.shares.count if self.shares else 1)
        total = self.label_total(xp, weights, counts)
        return self._of_shares(self.shares.total(np.array(float(total)))) if self.shares else xp.maximum(total, 1)

    def _of_shares(self, total: np.ndarray) -> float:
        assert self.shares
        return max(float(total), 1.0) / self.shares.count

    def settle(self, loss: Any) -> None:
        assert self.shares
        before, self._total = self._total, self._of_shares(self.shares.settled())
        loss *= before / self._total

    def _read(self, xp: ModuleType, x: tuple, forward: bool) -> tuple:
        """Logarithms of probabilities, one-hot labels, and the weight of each label over the divisor. forward: False
        for the divisor of the last forward pass."""
        scores, labels = x[0].reshape(self.split), x[1].reshape(self.split[0], self.split[2])
        last = self.first_label + self.count - 1
        classes, counts = self.classes_of(xp, labels, self.first_label, last, self.ignored())
        far = scores - scores.max(1, keepdims=True)
        logs = far - xp.log(xp.exp(far).sum(1, keepdims=True))
        hot = xp.arange(self.first_label, last + 1)[:, None] == classes[:, None]
        weights = xp.where(counts, self.weights(xp, x), 0.0)
        if forward:
            self._total = self._divisor_of(xp, weights, counts)
        return logs, hot, weights / self._total

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        logs, hot, weights = self._read(xp, x, True)
        loss = (weights * self.term(xp, xp.where(hot, logs, 0.0).sum(1))).sum()
        return (loss, xp.exp(logs).reshape(x[0].shape))[: len(self.spec.top)]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        logs, hot, weights = self._read(xp, x, False)
        slopes = weights * self.slope(xp, xp.where(hot, logs, 0.0).sum(1)) * dy[0]
        return ((hot - xp.exp(logs)) * slopes[:, None]).reshape(x[0].shape), *[None] * (len(x) - 1)


def power(xp: ModuleType, base: Any, exponent: float) -> Any:
    """base^exponent of a base from 0; of 0 with a negative exponent 0, where what it multiplies is 0."""
    return xp.where(base > 0, xp.maximum(base, math.ulp(0.0)) ** exponent, 0.0) if exponent < 0 else base**exponent


@register
@Compares(classes=True, probability="Softmax")
class FocalLoss(SoftmaxTerms):
    """loss = -Σ alpha (1 - p)^gamma ln p / divisor, p the probability of a label by the softmax of x along `axis`.

    x (N, C, P...), label (N, P...), integers 0 to C - 1; tops: the loss () and optionally the probabilities. Divisor by
    loss_param as SoftmaxWithLoss. Defaults: alpha 0.25, gamma 2 (in some forks `gama`), axis 1. Errors: labels out of
    range, gamma below 0, type LINEAR. Source: Lin et al. 2017, as in zimenglan-sysu-512/Focal-Loss and
    liaomingg/Focal-Loss, focal_loss_layer.cpp.
    """

    field = "focal_loss_param"
    tops = (1, 2)

    def setup(self) -> None:
        super().setup()
        p = self.p
        self.softmax_axis = p.axis
        self.power = p.gama if p.HasField("gama") else p.gamma
        if p.type == pb.FocalLossParameter.LINEAR:
            raise self.error("type LINEAR is not supported", "type", expected="ORIGIN")
        if not self.power >= 0:
            name = "gama" if p.HasField("gama") else "gamma"
            raise self.error(f"a bad {name}", name, expected="0 or more", found=f"{self.power:g}")

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        return -self.p.alpha * (1 - xp.exp(log_p)) ** self.power * log_p

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        p = xp.exp(log_p)
        rest = self.power * p * log_p * power(xp, 1 - p, self.power - 1) if self.power else 0.0
        return self.p.alpha * (rest - (1 - p) ** self.power)


@register
class SoftmaxFocalLoss(FocalLoss):
    """FocalLoss, x (N, C, P...), label (N, P...), under its other name in zimenglan-sysu-512/Focal-Loss."""


class LogTerms(SoftmaxTerms):
    """The terms of SoftmaxWithLoss."""

    field = "softmax_param"

    def setup(self) -> None:
        super().setup()
        self.softmax_axis = self.p.axis

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        return -log_p

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        return -1.0


@register
@Compares(classes=True, probability="Softmax")
class WeightedSoftmaxWithLoss(LogTerms):
    """loss = -Σ w log softmax(x)[label] / divisor along softmax_param.axis (default 1), a weight for each label.

    x (N, C, P...), label (N, P...), integers 0 to C - 1, weights of their number; tops: the loss () and optionally the
    probabilities. Divisor by loss_param.normalization: VALID (default: Σ w of labels that are not ignored, at least 1),
    FULL, BATCH_SIZE, NONE, PRE_FIXED as SoftmaxWithLoss. Errors: labels out of range. As in the forks with a
    src/caffe/layers/weighted_softmax_loss_layer.cpp of three bottoms.
    """

    bottoms = (3, 3)
    tops = (1, 2)
    constant_bottoms = frozenset({1, 2})
    weighted_mean = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 1, 2)
        return super().shapes(bottoms)

    def weights(self, xp: ModuleType, x: tuple) -> Any:
        return x[2].reshape(self.split[0], self.split[2])

    def label_total(self, xp: ModuleType, weights: Any, counts: Any) -> Any:
        return weights.sum()


@register
class MultiSoftmaxLoss(LogTerms):
    """loss = -Σ log softmax(x)[label - 1] / N: x (N, C, P...), label (N, P...), integers 1 to C. MULTI_SOFTMAX_LOSS of
    xiaolonw/caffe-3dnormal_joint_pose, which shows it divided by 336."""

    default_normalization = LOSS.BATCH_SIZE
    first_label = 1


@register
class WeightedSigmoidCrossEntropyLoss(ArrayLoss):
    """loss = -2 Σ (w t log σ(x) + (1 - w) (1 - t) log(1 - σ(x))) / N: x (N, ...), targets t and weights w of one count.
    As in the forks with a src/caffe/layers/weighted_sigmoid_cross_entropy_loss_layer.cpp."""

    bottoms = (3, 3)
    constant_bottoms = frozenset({1, 2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        require.same_count(self, bottoms, 0, 2)
        self.scale = 2 / (bottoms[0][0] if bottoms[0] else 1)
        return [()]

    def _weights(self, x: tuple) -> tuple:
        """Of log σ(x) and of log(1 - σ(x))."""
        t, w = x[1].reshape(x[0].shape), x[2].reshape(x[0].shape)
        return self.scale * w * t, self.scale * (1 - w) * (1 - t)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        high, low = self._weights(x)
        return (high * softplus(xp, -x[0]) + low * softplus(xp, x[0])).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        high, low = self._weights(x)
        sigmoid = (1 + xp.tanh(x[0] / 2)) / 2
        return dy[0] * (low * sigmoid - high * (1 - sigmoid)), None, None


@register
class AngleLoss(ArrayLoss):
    """loss = Σ acos(Σ x t) / N: the angles between unit vectors along axis 1, x, t (N, C, P...). A place whose t is
    beyond ±10 in channel 0 is unknown and does not count. dx = -t / (√(1 - d²) + 1e-6) / N, d = Σ x t. ANGLE_LOSS of
    xiaolonw/caffe-3dnormal_joint_pose, src/caffe/layers/angle_loss_layer.cpp."""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        require.same_count(self, bottoms, 0, 1)
        self.split = *bottoms[0][:2], math.prod(bottoms[0][2:])
        return [()]

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """The targets, the cosines of the angles, and which are known."""
        target = x[1].reshape(self.split)
        known = xp.abs(target[:, :1]) <= 10
        target = xp.where(known, target, 0.0)
        return target, (x[0].reshape(self.split) * target).sum(1, keepdims=True), known

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        _, cosines, known = self._read(xp, x)
        return xp.where(known, xp.arccos(cosines), 0.0).sum() / self.split[0]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        target, cosines, _ = self._read(xp, x)
        scale = dy[0] / self.split[0]
        return (-scale * target / (xp.sqrt(1 - cosines**2) + 1e-6)).reshape(x[0].shape), None


@register
class SigmoidCrossEntropyBalanceLoss(ArrayLoss):
    """loss = Σ_n (Σ of ones w⁻ ln(1 + e^-x) + Σ of zeros w⁺ ln(1 + e^x)) / N: scores x and targets t (N, ...) of one
    size; t gets no gradient. w⁺ and w⁻ are the shares of the ones and the zeros among both in the sample.

    Targets other than 0 and 1 count nowhere; in the fork they have a gradient, and no loss. Source: Xie and Tu 2015, as
    in kmaninis/OSVOS-caffe, src/caffe/layers/sigmoid_cross_entropy_balance_loss_layer.cpp.
    """

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        if not bottoms[0] or bottoms[1][:1] != bottoms[0][:1]:
            expected = f"the samples of {list(bottoms[0])}"
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        return [()]

    def _weights(self, xp: ModuleType, t: Any) -> tuple[Any, Any]:
        """The weights of ones and of zeros, 0 elsewhere: (N, values) each."""
        ones, zeros = (t == 1).astype(t.dtype), (t == 0).astype(t.dtype)
        many, few = (which.sum(1, keepdims=True) for which in (ones, zeros))
        total = xp.maximum(many + few, 1)
        return ones * few / total, zeros * many / total

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        scores, t = (blob.reshape(len(blob), -1) for blob in x)
        ones, zeros = self._weights(xp, t)
        return (ones * softplus(xp, -scores) + zeros * softplus(xp, scores)).sum() / len(scores)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        scores, t = (blob.reshape(len(blob), -1) for blob in x)
        ones, zeros = self._weights(xp, t)
        share = 0.5 * (1 + xp.tanh(scores / 2))
        slopes = (ones * (share - 1) + zeros * share) / len(scores)
        return (dy[0] * slopes).reshape(x[0].shape), None


BITS = 32
IGNORED = BITS - 1  # the bit of a pixel that does not count
SUBNORMAL = 2.0**-149  # the least positive float32; the bits of values below 2**-126 are multiples of it


def float32_bits(xp: ModuleType, values: Any) -> Any:
    """The bits of values as float32, as uint32. CuPy rounds float64 below 2**-126 to 0; those are divided."""
    bits = xp.ascontiguousarray(values.astype(xp.float32)).view(xp.uint32)
    if values.dtype == xp.float32:
        return bits
    small = abs(values) < 2.0**-126
    multiples = (xp.where(small, abs(values), 0.0) / SUBNORMAL).astype(xp.uint32)
    return xp.where(small, multiples | xp.signbit(values).astype(xp.uint32) << IGNORED, bits)


@register
class MultiChannelSigmoidCrossEntropyLoss(ArrayLayer):
    """loss = -Σ (t ln p + (1 - t) ln(1 - p)) / N, p = sigmoid(x): scores x (N, C, P...), labels (N, 1, P...).

    The bits of a label as float32 are its classes: t of class k is bit k, of the lowest value first. A pixel whose bit
    31, the sign, is set does not count. Errors: more than 31 classes, labels of another number of pixels. Source:
    Chrisding/seal src/caffe/layers/multichannel_sigmoid_cross_entropy_loss_layer.cpp, and guomugong/FFIA.
    """

    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, self.classes, *pixels), (_, maps, *_) = ((*shape, 1, 1)[: max(2, len(shape))] for shape in bottoms)
        size = math.prod(pixels)
        if math.prod(bottoms[1]) != n * maps * size or not self.fits(maps):
            raise self.bottom_error(1, "does not fit", expected=self.expected(n, size), found=list(bottoms[1]))
        self.split, self.bits = (n, self.classes, size), (n, maps, size)
        return [()]

    def fits(self, maps: int) -> bool:
        """Whether the maps of labels have a bit for each class and one more."""
        return maps == 1 and self.classes < BITS

    def expected(self, n: int, size: int) -> str:
        return f"{n}×1×{size} labels, of at most {IGNORED} classes"

    def _read(self, xp: ModuleType, x: tuple) -> tuple[Any, Any, Any]:
        """Scores, classes (N, C, P) and which pixels count (N, 1, P)."""
        bits = float32_bits(xp, x[1]).reshape(self.bits)
        classes = xp.arange(self.classes)
        shown = bits[:, classes // BITS] >> (classes % BITS).astype(xp.uint32)[:, None] & 1
        return x[0].reshape(self.split), shown == 1, bits[:, -1:] >> IGNORED == 0

    def weights(self, xp: ModuleType, shown: Any, counts: Any) -> Any:
        """Of each score's loss, those of pixels that do not count aside."""
        return 1.0

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        scores, shown, counts = self._read(xp, x)
        terms = xp.where(counts, softplus(xp, xp.where(shown, -scores, scores)), 0.0)
        return (self.weights(xp, shown, counts) * terms).sum() / self.split[0]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        scores, shown, counts = self._read(xp, x)
        sign = xp.where(shown, -1.0, 1.0)
        share = (1 + xp.tanh(sign * scores / 2)) / 2
        slopes = xp.where(counts, sign * share, 0.0) * self.weights(xp, shown, counts)
        return (slopes * (dy[0] / self.split[0])).reshape(x[0].shape), None


@register
class MultiChannelReweightedSigmoidCrossEntropyLoss(MultiChannelSigmoidCrossEntropyLoss):
    """MultiChannelSigmoidCrossEntropyLoss of scores x (N, C, P...) and labels (N, L, P...), balanced by the pixels of
    each image: the loss of a class that a pixel has counts by the share of pixels without a class, that of others by
    the share of pixels with one.

    Class k is bit k mod 32 of map k // 32; bit 31 of the last map marks pixels that do not count. Errors: 32 L classes
    or more, labels of another number of pixels. Differs: the fork counts pixels whose label is not 0 in the first C //
    32 + 1 maps, here those with one of the C classes. Source: Chrisding/seal
    src/caffe/layers/multichannel_reweighted_sigmoid_cross_entropy_loss_layer.cpp (CASENet, Yu et al. 2017).
    """

    def fits(self, maps: int) -> bool:
        return self.classes < BITS * maps

    def expected(self, n: int, size: int) -> str:
        return f"{n}×L×{size} labels, {self.classes // BITS + 1} or more maps L"

    def weights(self, xp: ModuleType, shown: Any, counts: Any) -> Any:
        edges = (shown.any(1, keepdims=True) & counts).sum(2, keepdims=True)
        every = counts.sum(2, keepdims=True)
        share = edges / xp.maximum(every, 1)
        return xp.where(every > 0, xp.where(shown, 1 - share, share), 0.0)


@register
class DiceCoefLoss(ArrayLoss):
    """loss = 1 - Σ (2 Σ w x t + s) / (Σ w x² + Σ w t² + s) / N: maps x and targets t (N, C, P...) of one size, the
    inner sums over each sample; t gets no gradient.

    generalization NONE (default) and MULTICLASS: w = 1, s = 1. MULTICLASS_WEIGHTED: w = 1 / (1 + Σ t)² of each channel
    of each sample, s = 1 / P². The channel ignore_label (default -1: none) has w = 0 in both of the latter. As in
    HolmesShuan/A-Variation-of-Dice-coefficient-Loss-Caffe-Layer and fantes/caffe,
    src/caffe/layers/dice_coef_loss_layer.cpp, whose weighted gradient is another one. contour_shape is not supported.
    """

    field = "dice_coef_loss_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        require.same_count(self, bottoms, 0, 1)
        self.split = n, c, p = *bottoms[0][:2], math.prod(bottoms[0][2:])
        require.fits(self, bottoms, 1, bottoms[1][:1] == bottoms[0][:1], f"{n} samples")
        self.weighted = self.p.generalization == pb.DiceCoefLossParameter.MULTICLASS_WEIGHTED
        self.smooth = 1 / p**2 if self.weighted else 1.0
        if self.p.generalization != pb.DiceCoefLossParameter.NONE and not -1 <= self.p.ignore_label < c:
            raise self.error("a bad ignore_label", "ignore_label", expected=f"-1 to {c - 1}", found=self.p.ignore_label)
        return [()]

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """Maps, targets, weights, and numerator and denominator of each sample."""
        a, t = (blob.reshape(self.split) for blob in x)
        w = (1 + t.sum(2, keepdims=True)) ** -2.0 if self.weighted else xp.ones_like(t[:, :, :1])
        if self.p.generalization != pb.DiceCoefLossParameter.NONE and self.p.ignore_label >= 0:
            w[:, self.p.ignore_label] = 0
        above = 2 * (w * a * t).sum((1, 2), keepdims=True) + self.smooth
        return a, t, w, above, (w * (a**2 + t**2)).sum((1, 2), keepdims=True) + self.smooth

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        above, below = self._read(xp, x)[3:]
        return 1 - (above / below).mean()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        a, t, w, above, below = self._read(xp, x)
        slopes = 2 * w * (a * above / below - t) / below / self.split[0]
        return (dy[0] * slopes).reshape(x[0].shape), None


@register
class OrdinalRegressionLoss(ArrayLoss):
    """loss = -Σ w_j log p_j / N: x (N, 2K) are the scores of no and yes to K questions, whether the label is above j,
    p_j the probability of the right one by their softmax; label (N), integers 0 to K.

    k: K, by default half the channels. weight_file: K numbers w (default 1). Errors: another number of channels, labels
    out of range. Source: Niu et al. 2016, as in luoyetx/OrdinalRegression,
    src/caffe/layers/ordinal_regression_loss_layer.cpp, whose gradient ignores loss_weight.
    """

    field = "ordinal_regression_loss_param"
    files = ("ordinal_regression_loss_param.weight_file",)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        n, width = bottoms[0][0], math.prod(bottoms[0][1:])
        self.k = self.p.k if self.p.HasField("k") else width // 2
        if not self.k or width != 2 * self.k:
            expected = f"{2 * self.k} values" if self.k else "two values for each rank"
            raise self.bottom_error(0, "does not fit", expected=f"{expected} of each sample", found=list(bottoms[0]))
        require.labels(self, bottoms, n)
        self.rank_weights = self._weights()
        return [()]

    def _weights(self) -> np.ndarray:
        if not self.p.weight_file:
            return np.ones(self.k)
        values, where = class_weights.of_file(self, self.p.weight_file, self.field, "weight_file")
        if len(values) < self.k:
            what = f'layer "{self.name}" ({self.type}): weights are missing'
            raise where.error(what, expected=f"{self.k} numbers", found=len(values))
        return np.array(values[: self.k])

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """By how much each yes exceeds its no, the sign of the right one, and the weights."""
        pairs = x[0].reshape(len(x[0]), self.k, 2)
        labels, _ = self.classes_of(xp, x[1].reshape(-1, 1), 0, self.k)
        sign = xp.where(xp.arange(self.k) < labels, 1.0, -1.0)
        return pairs[..., 1] - pairs[..., 0], sign, xp.asarray(self.rank_weights) / len(x[0])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        gap, sign, weights = self._read(xp, x)
        return (weights * softplus(xp, -sign * gap)).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        gap, sign, weights = self._read(xp, x)
        slope = -dy[0] * weights * sign * (1 - xp.tanh(sign * gap / 2)) / 2
        return xp.stack([-slope, slope], -1).reshape(x[0].shape), None
