"""Anchors: the boxes that a region proposal network classifies and moves.

A box is a row x1, y1, x2, y2 in pixels, whose last row and column belong to it: its width is x2 - x1 + 1. Source:
rbgirshick/py-faster-rcnn lib/rpn/generate_anchors.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...layers import require
from ...layers.layer import Layer

RATIOS, SCALES = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0)


def base_anchors(
    base_size: int, ratios: Sequence[float], scales: Sequence[float], halves_to_even: bool = False
) -> np.ndarray:
    """A×4 of float64: for each ratio of height to width, for each scale, a box about the centre of the first
    ``base_size`` pixels. The sides of a ratio are rounded before they are scaled: halves up, or to the even number."""
    area, centre = float(base_size * base_size), 0.5 * (base_size - 1)
    nearest = np.rint if halves_to_even else lambda side: np.floor(side + 0.5)
    anchors = []
    for ratio in ratios:
        width = nearest(np.sqrt(area / ratio))
        height = nearest(width * ratio)
        for scale in scales:
            half = 0.5 * (np.array([width, height]) * scale - 1)
            anchors.append([*(centre - half), *(centre + half)])
    return np.array(anchors)


def shifted(base: np.ndarray, stride: int, height: int, width: int) -> np.ndarray:
    """(H·W·A)×4: the anchors of each place of a feature map, in the order row, column, anchor."""
    y, x = np.mgrid[:height, :width] * stride
    shift = np.stack([x, y, x, y], -1).astype(base.dtype)
    return (shift[:, :, None] + base).reshape(-1, 4)


class Anchored(Layer):
    """The base class of layers that know the anchors of a feature map. Runs on the host."""

    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        for name in ("feat_stride", "base_size"):
            require.positive(self, name)
        for name in ("ratio", "scale"):
            for i, value in enumerate(getattr(p, name)):
                if not 0 < value < math.inf:
                    expected = "a finite number above 0"
                    raise self.error(f"a bad {name}", name, i, expected=expected, found=f"{value:g}")
        self.of_python = self.spec.HasField("python_param")  # see python_names.py
        ratios, scales = list(p.ratio) or RATIOS, list(p.scale) or SCALES
        self.base = base_anchors(p.base_size, ratios, scales, halves_to_even=self.of_python)

    def share(self, name: str) -> float:
        """A field from 0 to 1."""
        value = getattr(self.p, name)
        require.value(self, name, 0 <= value <= 1, "0 to 1")
        return value
