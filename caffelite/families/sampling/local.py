"""Local: a convolution whose weights differ from place to place."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Local(ArrayLayer):
    """A convolution with weights of its own for each place: x (N, C, H, W) → (N, num_output, OH, OW).

    OH = ⌊(H + 2 pad - kernel_size) / stride⌋ + 1. Weights (num_output, 1, C · kernel_size², OH · OW), bias (1, 1,
    num_output, OH · OW). Defaults: pad 0, stride 1. Errors: no num_output or kernel_size, a kernel that is larger than
    the padded image. As in ZJULearning/SplitNet, caffe/src/caffe/layers/local_layer.cpp.
    """

    field = "local_param"
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of kernels")
        require.positive(self, "kernel_size", meaning="the side of the kernel")
        require.positive(self, "stride")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, *image), p = require.images(self, bottoms), self.p
        size = [(side + 2 * p.pad - p.kernel_size) // p.stride + 1 for side in image]
        if min(size) < 1:
            raise self.error("its kernel does not fit", "kernel_size", found=f"{p.kernel_size}, an image of {image}")
        self.size, count = size, size[0] * size[1]
        self.add_param((p.num_output, 1, c * p.kernel_size**2, count), p.weight_filler, "weight_filler")
        if p.bias_term:
            self.add_param((1, 1, p.num_output, count), p.bias_filler, "bias_filler")
        return [(n, p.num_output, *size)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return bottoms[0][0] * self.p.num_output * bottoms[0][1] * self.p.kernel_size**2 * self.size[0] * self.size[1]

    def _windows(self, blob: Any) -> list[Any]:
        """Views of a padded blob: the pixels that each place of the kernel meets, (N, C, OH, OW)."""
        side, step, (high, wide) = self.p.kernel_size, self.p.stride, self.size
        return [
            blob[:, :, i : i + (high - 1) * step + 1 : step, j : j + (wide - 1) * step + 1 : step]
            for i in range(side)
            for j in range(side)
        ]

    def _padded(self, xp: ModuleType, blob: Any) -> Any:
        return xp.pad(blob, ((0, 0), (0, 0), (self.p.pad,) * 2, (self.p.pad,) * 2))

    def _columns(self, xp: ModuleType, blob: Any) -> Any:
        """(N, C · kernel, places)."""
        windows = xp.stack(self._windows(self._padded(xp, blob)), 2)
        return windows.reshape(len(blob), -1, self.size[0] * self.size[1])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        blob, weights, *bias = x
        top = xp.einsum("nkp,mkp->nmp", self._columns(xp, blob), weights[:, 0])
        top = top + bias[0][0] if bias else top
        return top.reshape(len(blob), -1, *self.size)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        blob, weights = x[:2]
        above = dy[0].reshape(*dy[0].shape[:2], -1)
        dw = xp.einsum("nkp,nmp->mkp", self._columns(xp, blob), above)[:, None]
        columns = xp.einsum("nmp,mkp->nkp", above, weights[:, 0])
        columns = columns.reshape(len(blob), blob.shape[1], -1, *self.size)
        padded = xp.zeros_like(self._padded(xp, blob))
        for i, window in enumerate(self._windows(padded)):
            window += columns[:, :, i]
        p = self.p.pad
        dx = padded[:, :, p : p + blob.shape[2], p : p + blob.shape[3]]
        return (dx, dw, above.sum(0)[None, None])[: len(x)]
