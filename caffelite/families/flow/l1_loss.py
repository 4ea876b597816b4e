"""L1Loss of FlowNet: unknown pixels, lengths of vectors, errors that do not count."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Shape, register_variant
from ...layers.loss import Loss


@register_variant(lambda spec: spec.HasField("l1_loss_param") or len(spec.bottom) == 1)
class FlowL1Loss(Loss):
    """loss = Σ |d| / N over the known values of d = a - b, or of a alone: a, b (N, C, P...), both get gradients; a
    value of d that is NaN is unknown. Selected by l1_loss_param, or by one bottom.

    l2_per_location: Σ √(Σ d² + epsilon) / N, the inner sum over the channels, or their mean with
    l2_prescale_by_channels; unknown values are 0 there. normalize_by_num_entries: divided by the number of known values
    / C instead of by N. plateau: errors below it have no loss; of lengths, that of √epsilon. Defaults: epsilon 0.01,
    plateau 0. The host computes it. Errors: bottoms of different sizes. As in lmb-freiburg/flownet2,
    src/caffe/layers/l1loss_layer.cu.
    """

    type = "L1Loss"
    field = "l1_loss_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset()
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms) > 1:
            require.same_count(self, bottoms, 0, 1)
        require.channels(self, bottoms)
        shape = bottoms[0]
        self.split = shape[0], shape[1], math.prod(shape[2:])
        self.couples_samples = self.p.normalize_by_num_entries
        return [()]

    def _errors(self, x: list) -> tuple[np.ndarray, np.ndarray, float]:
        """The differences, 0 where unknown, which are known, and the divisor."""
        a, *b = (self.dev.download(blob).astype(float).reshape(self.split) for blob in x)
        d = a - b[0] if b else a
        known = ~np.isnan(d)
        divisor = known.sum() / self.split[1] if self.p.normalize_by_num_entries else self.split[0]
        return np.where(known, d, 0), known, float(divisor) or 1.0

    def _lengths(self, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """√(Σ d² + epsilon), which lengths reach the plateau, and the factor of the squares."""
        factor = 1 / self.split[1] if self.p.l2_prescale_by_channels else 1.0
        squares = factor * (d**2).sum(1, keepdims=True)
        reached = squares >= self.p.plateau**2 if self.p.plateau > 0 else np.ones(squares.shape, bool)
        return np.sqrt(np.where(reached, squares, 0) + self.p.epsilon), reached, factor

    def forward(self, x: list, y: list) -> None:
        d, _, divisor = self._errors(x)
        if self.p.l2_per_location:
            total = self._lengths(d)[0].sum()
        else:
            total = np.abs(d[np.abs(d) >= self.p.plateau]).sum()
        self.dev.upload(y[0], np.asarray(total / divisor))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        d, known, divisor = self._errors(x)
        weight = float(self.dev.download(dy[0]).reshape(-1)[0]) / divisor
        if self.p.l2_per_location:
            lengths, reached, factor = self._lengths(d)
            slopes = np.divide(factor * d * reached, lengths, out=np.zeros_like(d), where=lengths > 0)
        else:
            slopes = np.sign(d) * (np.abs(d) >= self.p.plateau)
        slopes = weight * slopes * known
        for gradient, sign in zip(dx, (1, -1), strict=False):
            if gradient is not None:
                self.dev.upload(gradient, (sign * slopes).reshape(gradient.shape))
