"""SumPooling: sums of windows."""

from types import ModuleType
from typing import Any

from ...devices import Window
from ...layers.base import require, sliding
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from ...layers.pooling import pooled


@register
class SumPooling(ArrayLayer):
    """The sum of each window, channel by channel: x (N, C, H, W) → (N, C, OH, OW), sizes as of Pooling.

    global_pooling: one window, the image. Defaults: stride 1, pad 0. Errors: another pool than SUM, a kernel that does
    not fit. Source: ChaojianYu/Hierarchical-Bilinear-Pooling src/caffe/layers/sum_pooling_layer.cpp.
    """

    field = "sum_pooling_param"
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        if self.p.pool != self.p.SUM:
            raise self.error("pools by SUM alone", "pool", expected="SUM", found=self.p.PoolMethod.Name(self.p.pool))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, *image = require.images(self, bottoms)
        one = Window(tuple(image), (1, 1), (0, 0), (1, 1))
        self.window = one if self.p.global_pooling else sliding.window(self, 2)
        self.size = pooled(self, tuple(image), self.window)
        return [(n, c, *self.size)]

    def _borders(self, shape: tuple) -> list[tuple[int, int]]:
        k = self.window
        sides = zip(self.size, k.stride, k.kernel, k.pad, shape[2:], strict=True)
        return [(0, 0), (0, 0), *((p, max(0, (o - 1) * s + kernel - n - p)) for o, s, kernel, p, n in sides)]

    def _windows(self, padded: Any) -> list[Any]:
        """Views of the pixels that each place of the kernel meets."""
        (high, wide), (down, across) = self.size, self.window.stride
        kernel = self.window.kernel
        return [
            padded[:, :, i : i + (high - 1) * down + 1 : down, j : j + (wide - 1) * across + 1 : across]
            for i in range(kernel[0])
            for j in range(kernel[1])
        ]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return sum(self._windows(xp.pad(x[0], self._borders(x[0].shape))))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        borders = self._borders(x[0].shape)
        padded = xp.zeros_like(xp.pad(x[0], borders))
        for window in self._windows(padded):
            window += dy[0]
        (_, _, (top, _), (left, _)), (height, width) = borders, x[0].shape[2:]
        return padded[:, :, top : top + height, left : left + width]
