"""The losses of domain adaptation: correlations, entropies and mean discrepancies of features."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register, split_axis
from ...layers.loss import Loss


@register
class CORALLoss(Loss):
    """loss = Σ (cov a - cov b)² / 4K²: features a of one domain, b of another, whose covariances are to be equal.

    a (N, K...), b (M, K...), K values each, both get gradients; cov x = Σ (x - mean)ᵀ (x - mean) / (N - 1), K×K, which
    is 0 for one sample. The host computes it. Errors: no axis of features, or of other sizes. Source: Sun and Saenko
    2016, as in baochens/Caffe-Deep_CORAL, src/caffe/layers/coral_loss_layer.cpp, which needs batches of one size.
    """

    constant_bottoms = frozenset()
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for index in (0, 1):
            require.channels(self, bottoms, index)
        self.k = math.prod(bottoms[0][1:])
        if math.prod(bottoms[1][1:]) != self.k:
            expected = f'rows of {self.k} values, as "{self.spec.bottom[0]}" {list(bottoms[0])} has'
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        self.couples_samples = True
        return [()]

    def forward(self, x: list, y: list) -> None:
        self.dev.upload(y[0], np.asarray((self._read(x)[2] ** 2).sum() / (4 * self.k**2)))

    def _read(self, x: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both bottoms less their means, and the difference of their covariances."""
        a, b = (self.dev.download(blob).astype(float).reshape(len(blob), self.k) for blob in x)
        a, b = a - a.mean(0), b - b.mean(0)
        return a, b, a.T @ a / max(1, len(a) - 1) - b.T @ b / max(1, len(b) - 1)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        a, b, difference = self._read(x)
        weight = float(self.dev.download(dy[0]).reshape(-1)[0]) / self.k**2
        for rows, sign, slopes in ((a, 1, dx[0]), (b, -1, dx[1])):
            if slopes is not None:
                values = rows @ difference * (sign * weight / max(1, len(rows) - 1))
                self.dev.upload(slopes, values.reshape(slopes.shape))


@register
class EntropyLoss(ArrayLayer, Loss):
    """loss = -Σ p ln p / divisor, p the softmax of x (N, C, P...) along axis 1; divisor by loss_param.normalization as
    SoftmaxWithLoss without labels: VALID and FULL N·P.

    With entropy_param or a second bottom, which is not read, x are probabilities p themselves: terms below threshold
    (0.001) do not count, and the divisor is N. Sources: mancinimassimiliano/latent_domains_DA and thuml/Xlearn,
    src/caffe/layers/entropy_loss_layer.cpp, where ignore_label has no effect either. Errors: iterations_num other than
    0, before which the loss would be 0.
    """

    field = "entropy_param"
    bottoms = (1, 2)

    def setup(self) -> None:
        super().setup()
        require.value(self, "iterations_num", not self.p.iterations_num, 0)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.axis(1, len(bottoms[0]))
        n, _, p = split_axis(bottoms[0], 1)
        self.of_probabilities = len(bottoms) > 1 or self.spec.HasField(self.field)
        divisor = n if self.of_probabilities else self.divisor(n, n * p)
        assert divisor, "no label is ignored"
        self.divide = float(divisor)
        return [()]

    def ignored(self) -> None:
        """There are no labels."""

    def _logs(self, xp: ModuleType, x: Any) -> tuple:
        """p, ln p, and which terms count."""
        if self.of_probabilities:
            counts = ~(x < self.p.threshold)
            return x, xp.log(xp.where(counts, x, 1.0)), counts
        far = x - x.max(1, keepdims=True)
        logs = far - xp.log(xp.exp(far).sum(1, keepdims=True))
        return xp.exp(logs), logs, True

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        p, logs, _ = self._logs(xp, x[0])
        return -(p * logs).sum() / self.divide

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        p, logs, counts = self._logs(xp, x[0])
        slope = (
            xp.where(counts, 1 + logs, 0.0) if self.of_probabilities else p * (logs - (p * logs).sum(1, keepdims=True))
        )
        return -dy[0] / self.divide * slope, *[None] * (len(x) - 1)


MOST, STEEPEST = 64, 1000.0  # kernels, and the factor between two of them


class Discrepancy(ArrayLayer, Loss):
    """loss = mean k(s, s') + mean k(t, t') - 2 mean k(s, t) over pairs of different samples s of one batch and t of
    another; k is the product of a sum of kernels e^(-g d) for each pair of bottoms, d the squared distance."""

    constant_bottoms = frozenset()
    _fixed: Any = None

    def check_kernels(self, count: str, factor: str) -> None:
        """Errors: a number of kernels, or a factor between two of them, that makes no sense."""
        require.value(self, count, 1 <= getattr(self.p, count) <= MOST, f"1 to {MOST}")
        if not 1 / STEEPEST <= getattr(self.p, factor) <= STEEPEST:
            expected = f"more than 0, {1 / STEEPEST:g} to {STEEPEST:g}"
            raise self.error(f"a bad {factor}", factor, expected=expected, found=f"{getattr(self.p, factor):g}")

    def setup(self) -> None:
        super().setup()
        self.check_kernels("kernel_num", "kernel_mul")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, shape in enumerate(bottoms):
            require.channels(self, bottoms, i)
            like = bottoms[i % 2][:1] + bottoms[i - i % 2][1:]  # as many samples as its domain, values as its pair
            if shape[:1] + (math.prod(shape[1:]),) != like[:1] + (math.prod(like[1:]),):
                expected = f"{like[0]} samples of {math.prod(like[1:])} values"
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(shape))
        self.counts = bottoms[0][0], bottoms[1][0]
        self.couples_samples = True
        return [()]

    def rates(self, xp: ModuleType, index: int, distances: Any) -> Any:
        """The g of the kernels of a pair of bottoms, by the distances of all samples."""
        raise NotImplementedError

    def first_rate(self, xp: ModuleType, distances: Any) -> Any:
        """``mean_rate``, with fix_gamma that of the first pass."""
        rate = self.mean_rate(xp, distances) if self._fixed is None else self._fixed
        if self.p.fix_gamma:
            self._fixed = rate
        return rate

    def mean_rate(self, xp: ModuleType, distances: Any) -> Any:
        """1 / the mean squared distance; 0 where all samples are in one place."""
        total, n = distances.sum(), len(distances)
        return xp.where(total > 0, (n * n - n) / xp.where(total > 0, total, 1.0), 0.0)

    def _weights(self, xp: ModuleType) -> Any:
        """The weight of each pair of samples in the loss; 0 where a batch has one sample."""
        n, m = self.counts
        weights = xp.zeros((n + m, n + m))
        if min(n, m) > 1:
            weights[:n, :n], weights[n:, n:] = 1 / (n * (n - 1)), 1 / (m * (m - 1))
            weights[:n, n:] = weights[n:, :n] = -1 / (n * m)
            weights *= 1 - xp.eye(n + m)
        return weights

    def _kernels(self, xp: ModuleType, x: tuple) -> list[tuple]:
        """Of each pair of bottoms: its samples, the sum of its kernels, and the sum's derivative by the distance."""
        kernels = []
        for i in range(0, len(x), 2):
            rows = xp.concatenate([blob.reshape(len(blob), -1) for blob in x[i : i + 2]])
            squares = (rows**2).sum(1)
            distances = xp.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0) * (1 - xp.eye(len(rows)))
            rates = self.rates(xp, i // 2, distances)
            each = [xp.exp(-rate * distances) for rate in rates]
            slope = -sum(rate * kernel for rate, kernel in zip(rates, each, strict=True))
            kernels.append((rows, sum(each), slope))
        return kernels

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        product = self._weights(xp)
        for _, kernel, _ in self._kernels(xp, x):
            product = product * kernel
        return product.sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        kernels, slopes = self._kernels(xp, x), []
        for i, (rows, _, slope) in enumerate(kernels):
            terms = self._weights(xp) * slope
            for j, (_, other, _) in enumerate(kernels):
                terms = terms * other if j != i else terms
            slope_of_rows = 4 * dy[0] * (terms.sum(1)[:, None] * rows - terms @ rows)
            n = self.counts[0]
            slopes += [slope_of_rows[:n].reshape(x[2 * i].shape), slope_of_rows[n:].reshape(x[2 * i + 1].shape)]
        return slopes


def spread(rate: Any, factor: float, count: int) -> list:
    """``count`` rates, ``factor`` times as great each, the given one in their middle."""
    return [rate * factor ** (i - count // 2) for i in range(count)]


@register
class MMDLoss(Discrepancy):
    """loss = mean k(s, s') + mean k(t, t') - 2 mean k(s, t) over all pairs of different samples: s (N, K...) of one
    domain, t (M, K...) of another, both get gradients; k is a sum of kernels e^(-g |a - b|²).

    kernel_num g, each kernel_mul times the one before, with 1 / the mean squared distance of all samples in their
    middle; it counts as constant in the gradient, and with fix_gamma is that of the first pass. Defaults: 5, 2. Of one
    sample the loss is 0. Source: Long et al. 2015, as in thuml/Xlearn, src/caffe/layers/mmd_layer.cu, which draws as
    many random pairs as there are samples instead of all, and shows their sum.
    """

    field = "mmd_param"

    def rates(self, xp: ModuleType, index: int, distances: Any) -> Any:
        return spread(self.first_rate(xp, distances), self.p.kernel_mul, self.p.kernel_num)


@register
class JMMDLoss(Discrepancy):
    """loss = mean k(s, s') + mean k(t, t') - 2 mean k(s, t), as MMDLoss, k = k1 · k2: k1 of features (N, K...) and
    (M, K...), the first two bottoms, k2 of predictions (N, C...) and (M, C...), the last two; all get gradients.

    k1 as MMDLoss. k2: label_kernel_num kernels e^(-|a - b|² / sigma), sigma label_kernel_mul times the one before, the
    given one in their middle, or with auto_sigma the mean squared distance. Errors: a sigma of 0 without auto_sigma.
    Source: Long et al. 2017, as in thuml/Xlearn, src/caffe/layers/jmmd_layer.cu, which draws random pairs and shows 0.
    """

    field = "jmmd_param"
    bottoms = (4, 4)

    def setup(self) -> None:
        super().setup()
        self.check_kernels("label_kernel_num", "label_kernel_mul")
        require.value(self, "sigma", 0 < self.p.sigma < math.inf or self.p.auto_sigma, "more than 0, or auto_sigma")

    def rates(self, xp: ModuleType, index: int, distances: Any) -> Any:
        p = self.p
        if index == 0:
            return spread(self.first_rate(xp, distances), p.kernel_mul, p.kernel_num)
        rate = self.mean_rate(xp, distances) if p.auto_sigma else 1 / p.sigma
        return [rate / factor for factor in spread(1.0, p.label_kernel_mul, p.label_kernel_num)]
