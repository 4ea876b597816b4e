"""CORALLoss: the difference between the covariances of two batches."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Shape, register
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
