"""Images of another size, and the weights of their rows and columns."""

from __future__ import annotations

import numpy as np

from ...layers import require, sliding
from ...layers.layer import Layer, Shape


class Resized(Layer):
    """Images of the size of a second bottom, or of the fields ``size_fields``."""

    bottoms = (1, 2)
    couples_samples = False
    requires_host = needs_images = True
    size_fields = ("height", "width")
    least = 1
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in range(len(bottoms)):
            require.images(self, bottoms, i)
        size = bottoms[1][2:] if len(bottoms) > 1 else tuple(getattr(self.p, name) for name in self.size_fields)
        for name, side in zip(self.size_fields, size, strict=True):
            if not self.least <= side <= sliding.LARGEST:
                raise self.error(f"a bad {name}", name, expected=f"{self.least} to {sliding.LARGEST}", found=side)
        self.size = size
        return [(*bottoms[0][:2], *size)]


def triangle(d: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(d), 0)


def bicubic(d: np.ndarray) -> np.ndarray:
    """Keys' kernel with a = -0.5."""
    d = np.abs(d)
    near, far = d * d * (1.5 * d - 2.5) + 1, d * (d * (-0.5 * d + 2.5) - 4) + 2
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def normalized(weights: np.ndarray) -> np.ndarray:
    """Rows that sum to 1, or are 0."""
    total = weights.sum(1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)


def nearest(positions: np.ndarray, size: int) -> np.ndarray:
    """Weights (places, size): 1 for the nearest pixel, of two the farther one."""
    index = np.clip(np.floor(positions + 0.5), 0, size - 1)
    return (index[:, None] == np.arange(size)).astype(float)
