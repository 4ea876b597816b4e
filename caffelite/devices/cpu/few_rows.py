"""Products of a few rows with large weights, at the speed of memory: see kernels/few_rows.py."""

import numpy as np

from ..algorithms import LANES, rounded
from .kernels import few_rows
from .memory import Memory


class FewRowsProduct:
    """y (M, N) = x (M, K) wᵀ + b, w (N, K), with its gradients, in float32, for the sizes that algorithms.has_few_rows
    accepts.

    Results do not depend on the number of threads.
    """

    def __init__(self, device: Memory, m: int, k: int, n: int):
        self._device, self._rows, self._padded = device, m, rounded(m, few_rows.ROWS)
        self._k, self._n, self._zeros = k, n, np.zeros(n, np.float32)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        threads, lines = self._device.threads, self._padded * few_rows.ROWS
        copied = self._padded * self._k if self._padded > self._rows else 0
        space = self._device.workspace(threads * lines * LANES + copied, np.float32)
        sums, rows = space[copied:].reshape(threads, lines, LANES), x.reshape(self._rows, self._k)
        if copied:
            rows = space[:copied].reshape(self._padded, self._k)
            rows[: self._rows], rows[self._rows :] = x.reshape(self._rows, self._k), 0
        bias, factor = self._zeros if b is None else b.reshape(-1), np.float32(1 if slope is None else slope)
        few_rows.forward(rows, w.reshape(self._n, self._k), bias, factor, y.reshape(self._rows, -1), self._rows, sums)

    def backward(self, x, w, dy, dx, dw, add: bool) -> None:
        """dx, dw: None where not wanted; add: adds to dw."""
        if dx is None and dw is None:
            return
        x, w, dy = x.reshape(self._rows, self._k), w.reshape(self._n, self._k), dy.reshape(self._rows, self._n)
        targets = x if dx is None else dx.reshape(x.shape), w if dw is None else dw.reshape(w.shape)
        space = self._device.workspace(self._device.threads * 2 * self._rows * few_rows.BLOCK, np.float32)
        space = space.reshape(self._device.threads, 2, self._rows, few_rows.BLOCK)
        few_rows.backward(x, w, dy, *targets, dx is not None, dw is not None, add, space)
