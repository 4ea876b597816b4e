"""ImResize: heat maps of several scales, as one of the size of the image."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...layers.base import require, sliding
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class ImResize(ArrayLayer):
    """The mean of x (N, C, H, W) over its N images, each the middle of its own scale, by bicubic interpolation: y
    (1, C, OH, OW), OH and OW target_spatial_height and target_spatial_width (368), or factor times H and W.

    Of image n the borders ⌊W / 2 · (1 - start_scale + n · scale_gap)⌋, and of H likewise, are cut off. Defaults:
    start_scale 1, scale_gap 0.1. Errors: no pixels left. As in CMU-Perceptual-Computing-Lab/caffe_rtpose,
    src/caffe/cpm/layers/imresize_layer.cu, which has no gradient.
    """

    field = "imresize_param"
    needs_images = True

    def setup(self) -> None:
        for name in ("factor", "start_scale", "scale_gap"):
            value = getattr(self.p, name)
            require.value(self, name, 0 <= value <= sliding.LARGEST, f"0 to {sliding.LARGEST}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, h, w = require.images(self, bottoms)
        p = self.p
        size = (int(h * p.factor), int(w * p.factor)) if p.factor else (p.target_spatial_height, p.target_spatial_width)
        for name, side in zip(("target_spatial_height", "target_spatial_width"), size, strict=True):
            if not 1 <= side <= sliding.LARGEST:
                raise self.error(f"a bad {name}", name, expected=f"1 to {sliding.LARGEST}", found=side)
        cuts = [1 - p.start_scale + i * p.scale_gap for i in range(n)]
        sides = zip((h, w), size, strict=True)
        self.weights = [[self._axis(before, after, cut) for cut in cuts] for before, after in sides]
        return [(1, c, *size)]

    def _axis(self, before: int, after: int, cut: float) -> np.ndarray:
        """The weights (after, before) of what is cut on both sides."""
        border = math.floor(before // 2 * cut + 1e-6)
        inner = before - 2 * border
        if border < 0 or inner < 1:
            expected = f"borders from 0 to less than half of {before} pixels"
            raise self.error("a bad start_scale or scale_gap", "scale_gap", expected=expected, found=border)
        positions = (np.arange(after) - (after / inner / 2 - 0.5)) * inner / after
        first = np.maximum(np.trunc(positions + 1e-5), 0).astype(int)
        d = positions - first
        taps = (-d / 2 + d**2 - d**3 / 2, 1 - 2.5 * d**2 + 1.5 * d**3, d / 2 + 2 * d**2 - 1.5 * d**3, (d**3 - d**2) / 2)
        weights = np.zeros((after, before))
        for step, tap in zip((-1, 0, 1, 2), taps, strict=True):
            np.add.at(weights, (np.arange(after), border + np.clip(first + step, 0, inner - 1)), tap)
        return weights

    def _matrices(self, xp: ModuleType) -> Any:
        return [(xp.asarray(a), xp.asarray(b)) for a, b in zip(*self.weights, strict=True)]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return sum(a @ image @ b.T for image, (a, b) in zip(x[0], self._matrices(xp), strict=True))[None] / len(x[0])

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return xp.stack([a.T @ dy[0][0] @ b for a, b in self._matrices(xp)]) / len(x[0])
