"""DeformableConvolution: kernels whose pixels learned offsets move."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require, sliding
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from .points import Points


@register
class DeformableConvolution(ArrayLayer):
    """A convolution that reads x, for each pixel of the kernel and of the top, at a place that an offset moves, with
    interpolated values: x (N, C, H, W), offsets (N, 2·G·KH·KW, OH, OW), G = deformable_group → (N, num_output, OH, OW).

    OH = ⌊(H + 2 pad - dilation (KH - 1) - 1) / stride⌋ + 1. Of a group of C / G channels, offsets 2k and 2k + 1 are the
    rows and the columns that pixel k of the kernel moves. A place outside of 0 ≤ row < H, 0 ≤ column < W has the value
    0; from H - 1 on x is the last pixel's. Weights (num_output, C / group, KH, KW), bias (num_output). Defaults: G 4,
    group 1, pad 0, stride 1, dilation 1. Both bottoms get gradients. Errors: groups that do not divide the channels,
    offsets of another shape. Source: Dai et al. 2017, as in unsky/Deformable-ConvNets-caffe
    deformable_conv_cxx/deformable_conv_layer.cpp and deformable_im2col.cu.
    """

    field = "deformable_convolution_param"
    bottoms = (2, 2)
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of kernels")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, *image), p = require.images(self, bottoms), self.p
        self.window = k = sliding.window(self, 2)
        for name, count, what in (
            ("group", c, "input channels"),
            ("group", p.num_output, "num_output"),
            ("deformable_group", c, "input channels"),
        ):
            if getattr(p, name) < 1 or count % getattr(p, name):
                raise self.error(f"{name} {getattr(p, name)} does not divide the {count} {what}", name)
        sides = zip(image, k.kernel, k.stride, k.pad, k.dilation, strict=True)
        size = tuple(
            (side + 2 * pad - step * (kernel - 1) - 1) // stride + 1 for side, kernel, stride, pad, step in sides
        )
        if min(size) < 1:
            raise self.error(f"its kernel {list(k.kernel)} does not fit", "kernel_size", found=f"an image of {image}")
        self.taps, self.size = math.prod(k.kernel), size
        wanted = (n, 2 * p.deformable_group * self.taps, *size)
        require.fits(self, bottoms, 1, bottoms[1] == wanted, f"{list(wanted)}, 2 · deformable_group · kernel channels")
        self.add_param((p.num_output, c // p.group, *k.kernel), p.weight_filler, "weight_filler")
        if p.bias_term:
            self.add_param((p.num_output,), p.bias_filler, "bias_filler")
        return [(n, p.num_output, *size)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return math.prod(tops[0]) * bottoms[0][1] // self.p.group * self.taps

    def _points(self, xp: ModuleType, x: Any, offsets: Any) -> Points:
        """Of a sample: (C, kernel, OH, OW)."""
        k, (channels, height, width) = self.window, x.shape[1:]
        tap = xp.arange(self.taps).reshape(-1, 1, 1)
        moves = offsets.reshape(self.p.deformable_group, self.taps, 2, *self.size)
        moves = moves.repeat(channels // self.p.deformable_group, 0)
        row = (xp.arange(self.size[0]) * k.stride[0] - k.pad[0])[:, None] + tap // k.kernel[1] * k.dilation[0]
        column = xp.arange(self.size[1]) * k.stride[1] - k.pad[1] + tap % k.kernel[1] * k.dilation[1]
        row, column = row + moves[:, :, 0], column + moves[:, :, 1]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        return Points(xp, x.shape, 0, xp.arange(channels).reshape(-1, 1, 1, 1), row, column, inside)

    def _columns(self, values: Any) -> Any:
        """(group, channels of a group × kernel, pixels of the top)."""
        return values.reshape(self.p.group, -1, math.prod(self.size))

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        image, offsets, weights, *bias = x
        weights = weights.reshape(self.p.group, self.p.num_output // self.p.group, -1)
        tops = []
        for i in range(len(image)):
            one = image[i : i + 1]
            values = self._points(xp, one, offsets[i]).values(one)
            tops.append((weights @ self._columns(values)).reshape(self.p.num_output, *self.size))
        top = xp.stack(tops)
        return top + bias[0][:, None, None] if bias else top

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        image, offsets, weights = x[:3]
        dx, moves, dw = xp.zeros_like(image), xp.zeros_like(offsets), xp.zeros_like(weights)
        matrix = weights.reshape(self.p.group, self.p.num_output // self.p.group, -1)
        for i in range(len(image)):
            one, above = image[i : i + 1], dy[0][i].reshape(self.p.group, -1, math.prod(self.size))
            points = self._points(xp, one, offsets[i])
            dw += (above @ self._columns(points.values(one)).transpose(0, 2, 1)).reshape(dw.shape)
            values = (matrix.transpose(0, 2, 1) @ above).reshape(image.shape[1], self.taps, *self.size)
            points.add(dx[i : i + 1], values)
            each = [values * slope for slope in points.slopes(one)]
            sums = [part.reshape(self.p.deformable_group, -1, self.taps, *self.size).sum(1) for part in each]
            moves[i] = xp.stack(sums, 2).reshape(offsets.shape[1:])
        return (dx, moves, dw, dy[0].sum((0, 2, 3)))[: len(x)]
