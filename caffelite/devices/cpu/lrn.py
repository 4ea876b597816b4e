"""Local response normalization across channels on the CPU."""

from __future__ import annotations

import numpy as np

from .kernels import channels_last, lrn
from .memory import Memory


class LRN:
    """y = x · scale^-beta, scale = k + alpha / size · Σ x² over ``size`` channels around each of x (N, C, P)
    (Krizhevsky et al. 2012)."""

    def __init__(self, device: Memory, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        real = device.dtype.type
        self._device, self._shape, self._size, self._beta = device, (n, c, p), size, real(beta)
        self._share, self._k, self._factor = real(alpha / size), real(k), real(2 * alpha * beta / size)

    def forward(self, x, scale, y) -> None:
        """scale: like x, kept for backward; y may be x."""
        x, scale, y = (a.reshape(self._shape) for a in (x, scale, y))
        lrn.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta)

    def backward(self, x, y, scale, dy, dx) -> None:
        """dx must not alias another array."""
        arrays = (a.reshape(self._shape) for a in (x, y, scale, dy, dx))
        lrn.lrn_backward(*arrays, self._size, self._factor, self._beta)


class ChannelsLastLRN(LRN):
    """LRN of x (N, C): each position's channels in one run of memory."""

    def _space(self) -> np.ndarray:
        threads, width = self._device.threads, self._shape[1] + self._size
        return self._device.workspace(threads * 2 * width).reshape(threads, 2, width)

    def forward(self, x, scale, y) -> None:
        """scale: like x, kept for backward; y may be x."""
        x, scale, y = (a.reshape(self._shape[:2]) for a in (x, scale, y))
        channels_last.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta, self._space())

    def backward(self, x, y, scale, dy, dx) -> None:
        """dx must not alias another array."""
        arrays = (a.reshape(self._shape[:2]) for a in (x, y, scale, dy, dx))
        channels_last.lrn_backward(*arrays, self._size, self._factor, self._beta, self._space())
