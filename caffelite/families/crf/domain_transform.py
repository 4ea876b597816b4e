"""DomainTransform: maps that are smoothed up to edges."""

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

PASSES = ((3, 1), (3, -1), (2, 1), (2, -1))  # along which axis, and in which direction


@register
class DomainTransform(ArrayLayer):
    """y = x after num_iter rounds of four recursive filters: to the right, left, down and up, y_i += w_i (y_{i-1} -
    y_i), to the left and up with w_{i+1}. w of round k = exp(-√2 / σ_k (1 + spatial_sigma / range_sigma · g)), σ_k =
    spatial_sigma √3 2^(K-k) / √(4^K - 1), from min_weight to 1.

    x, y (N, C, H, W), edges g (N, 1, H, W), image sizes (N, 2 or more), the height and width up to which an image is
    filtered; x and g get gradients. That of g is the fork's: where w is bounded it is not 0. Defaults: num_iter 3,
    spatial_sigma 50, range_sigma 5, min_weight 0. Errors: bottoms of other sizes, a sigma or num_iter of 0. Source:
    Chen et al. 2016, as in gramuah/weakly-supervised-segmentation and aharley/segaware
    caffe/src/caffe/layers/domain_transform_layer.cpp.
    """

    field = "domain_transform_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        for name in ("num_iter", "spatial_sigma", "range_sigma"):
            require.value(self, name, getattr(self.p, name) > 0, "more than 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, _, *size = require.images(self, bottoms)
        require.fits(self, bottoms, 1, tuple(bottoms[1]) == (n, 1, *size), f"[{n}, 1, {size[0]}, {size[1]}]")
        if math.prod(bottoms[2]) < 2 * n or bottoms[2][0] != n:
            raise self.bottom_error(2, "does not fit", expected=f"{n}×2: heights and widths", found=list(bottoms[2]))
        return [bottoms[0]]

    def _weights(self, xp: ModuleType, x: tuple) -> Iterator[tuple[Any, float]]:
        """Of each round, and the derivative of their logarithm by the edges; 0 outside the images."""
        p, (_, edges, sizes) = self.p, x
        tall, wide = (sizes.reshape(len(edges), -1)[:, i, None, None, None].astype(int) for i in (0, 1))
        rows, columns = xp.arange(edges.shape[2])[:, None], xp.arange(edges.shape[3])
        for i in range(1, p.num_iter + 1):
            sigma = p.spatial_sigma * math.sqrt(3) * 2.0 ** (p.num_iter - i) / math.sqrt(4.0**p.num_iter - 1)
            slope = -math.sqrt(2) / sigma
            ratio = p.spatial_sigma / p.range_sigma
            weights = xp.clip(xp.exp(slope * (1 + edges * ratio)), p.min_weight, 1)
            yield xp.where((rows < tall) & (columns < wide), weights, 0), slope * ratio

    @staticmethod
    def _steps(shape: tuple, axis: int, direction: int) -> Iterator[tuple]:
        """Indices of what a step of a pass changes, of what it takes, and of the weights."""
        length = shape[axis]
        rest = (slice(None),) * axis
        for i in range(1, length) if direction > 0 else range(length - 2, -1, -1):
            yield (*rest, i), (*rest, i - direction), (*rest, max(i, i - direction))

    def _forward(self, xp: ModuleType, x: tuple) -> tuple[Any, list]:
        """The top, and of each pass its weights, their slope and the differences that it took."""
        y, passes = x[0].copy(), []
        for weights, slope in self._weights(xp, x):
            for axis, direction in PASSES:
                taken = xp.zeros_like(y)
                for here, before, at in self._steps(y.shape, axis, direction):
                    taken[here] = y[before] - y[here]
                    y[here] = y[here] + weights[at] * taken[here]
                passes.append((weights, slope, taken, axis, direction))
        return y, passes

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return self._forward(xp, x)[0]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        _, passes = self._forward(xp, x)
        slopes, by_edge = dy[0].copy(), xp.zeros_like(x[1])
        for weights, slope, taken, axis, direction in reversed(passes):
            by_weight = xp.zeros_like(x[1])
            for here, before, at in reversed(list(self._steps(slopes.shape, axis, direction))):
                by_weight[at] += (slopes[here] * taken[here]).sum(1, keepdims=True)
                slopes[before] = slopes[before] + weights[at] * slopes[here]
                slopes[here] = (1 - weights[at]) * slopes[here]
            by_edge += slope * weights * by_weight
        return slopes, by_edge, None


@register
class DomainTransformForwardOnly(DomainTransform):
    """DomainTransform of x (N, C, H, W), edges (N, 1, H, W) and image sizes (N, 2 or more) without gradients."""

    gradient = ArrayLayer.gradient
    differentiable = False
