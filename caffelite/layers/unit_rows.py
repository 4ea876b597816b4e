"""Weights whose rows have length 1."""

from __future__ import annotations

from ..devices.formula import Formula
from ..devices.protocol import Device


class UnitRows:
    """Scales each row w of weights (N, K) to length 1: w / √(|w|² + eps)."""

    def __init__(self, dev: Device, n: int, k: int, eps: float):
        self._squares = dev.empty(n)
        self._square = dev.channel_sum(Formula("w * w", ("w",)), (), 1, n, k)
        scaled = Formula("where(q + eps > 0, w / sqrt(q + eps), 0)", ("w", "q"), constants=("eps",))
        self._scale = dev.channel_map(scaled, ("q",), 1, n, k, eps=eps)

    def __call__(self, weights, out) -> None:
        """out may be the weights."""
        self._square(weights, self._squares)
        self._scale(weights, self._squares, out)
