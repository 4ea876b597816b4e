"""Correlation: how alike patches of two images are, for each displacement."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices import ops
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register

Slices = tuple[Any, ...]  # an index of images


@register
class Correlation(Layer):
    """y = Σ a · b / (K² C), a sum over a patch of a and the patch of b that is displaced by a multiple of stride_2 up
    to max_displacement; SUBTRACT: Σ |a - b| / (K² C).

    a, b (N, C, H, W) → y (N, S, OH, OW), S = (2R + 1)² with R = max_displacement / stride_2, channels by rows of
    displacements; OH = (H + 2 pad - 2 max_displacement - K + 1) / stride_1, rounded up. K is kernel_size, odd;
    defaults: pad 0, strides 1. do_abs has no effect, as in the fork. Errors: bottoms of different shapes, no
    kernel_size, an even one, no max_displacement, images that are too small. Source: Dosovitskiy et al. 2015, as in
    lmb-freiburg/flownet2, src/caffe/layers/correlation_layer.cu.
    """

    field = "correlation_param"
    bottoms = (2, 2)
    needs_images = True
    couples_samples = False
    backward_reads_tops = False

    def setup(self) -> None:
        p = self.p
        self.reach, self.pad = (p.max_displacement,) * 2, (p.pad,) * 2
        self.before = 0, 0  # more rows and columns of zeros, before the padding
        if p.kernel_size % 2 == 0:
            raise self.error("kernel_size must be odd", "kernel_size", expected="1, 3, 5, …", found=p.kernel_size)
        if not p.HasField("max_displacement"):
            raise self.error("has no max_displacement", "max_displacement", expected="a number of pixels")
        require.positive(self, "stride_1", "stride_2")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        require.shape(self, bottoms, 1, (bottoms[0][0], bottoms[0][1], *bottoms[0][2:]))
        borders = [2 * (reach - pad) + self.p.kernel_size - 1 for reach, pad in zip(self.reach, self.pad, strict=True)]
        sides = zip(bottoms[0][2:], borders, strict=True)
        size = tuple(-(-(side - border) // self.p.stride_1) for side, border in sides)
        if min(size) < 1:
            expected = f"at least {max(1, borders[0] + 1)}×{max(1, borders[1] + 1)} pixels"
            raise self.bottom_error(0, "is too small", expected=expected, found=list(bottoms[0]))
        self.size, self.images = size, bottoms[0]
        self.shifts = list(itertools.product(*map(self._steps, self.reach)))
        return [(bottoms[0][0], len(self.shifts), *size)]

    def _steps(self, reach: int) -> range:
        """The displacements along an axis."""
        step = self.p.stride_2
        return range(-(reach // step) * step, reach + 1, step)

    def _pairs(self) -> Iterator[tuple[int, Slices, Slices]]:
        """A channel of y, and which pixels of the padded bottoms meet there, one for each value of y: for each
        displacement and each pixel of the kernel."""
        side = self.p.kernel_size
        for channel, v, u in np.ndindex(len(self.shifts), side, side):
            moved = self.shifts[channel]
            first = [self.reach[0] + v, self.reach[1] + u]
            yield channel, self._pixels(first), self._pixels([f + m for f, m in zip(first, moved, strict=True)])

    def _pixels(self, first: list[int]) -> Slices:
        step = self.p.stride_1
        first = [start + more for start, more in zip(first, self.before, strict=True)]
        ends = (start + (count - 1) * step + 1 for start, count in zip(first, self.size, strict=True))
        return (..., *(slice(start, end, step) for start, end in zip(first, ends, strict=True)))

    def build(self, dev: Device) -> None:
        first = tuple(reach - pad for reach, pad in zip(self.reach, self.pad, strict=True))
        y = (self.images[0], len(self.shifts), *self.size)
        subtract = self.p.correlation_type == pb.CorrelationParameter.SUBTRACT
        shifts = tuple(self.shifts)
        self.op = dev.build(
            ops.Correlation(self.images, y, self.p.kernel_size, first, self.p.stride_1, shifts, subtract)
        )

    def _padded(self, x: list) -> list[np.ndarray]:
        sides = ((0, 0), (0, 0), *((pad + more, pad) for pad, more in zip(self.pad, self.before, strict=True)))
        return [np.pad(self.dev.download(image).astype(float), sides) for image in x]

    def forward(self, x: list, y: list) -> None:
        if self.op:
            self.op.forward(x[0], x[1], y[0])
            return
        a, b = self._padded(x)
        top = np.zeros(y[0].shape)
        subtracts = self.p.correlation_type == pb.CorrelationParameter.SUBTRACT
        for channel, here, there in self._pairs():
            if subtracts:
                top[:, channel] += np.abs(a[here] - b[there]).sum(1)
            else:
                top[:, channel] += np.einsum("nchw,nchw->nhw", a[here], b[there])
        self.dev.upload(y[0], top / (self.p.kernel_size**2 * a.shape[1]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.op:
            self.op.backward(x[0], x[1], dy[0], dx[0], dx[1])
            return
        a, b = self._padded(x)
        slopes = self.dev.download(dy[0]).astype(float) / (self.p.kernel_size**2 * a.shape[1])
        da, db = np.zeros_like(a), np.zeros_like(b)
        subtracts = self.p.correlation_type == pb.CorrelationParameter.SUBTRACT
        for channel, here, there in self._pairs():
            above = slopes[:, channel, None]
            if subtracts:
                side = above * np.sign(a[here] - b[there])
                da[here] += side
                db[there] -= side
            else:
                da[here] += above * b[there]
                db[there] += above * a[here]
        sides = zip(self.pad, self.before, a.shape[2:], strict=True)
        inner: Slices = (..., *(slice(pad + more, side - pad) for pad, more, side in sides))
        for gradient, padded in zip(dx, (da, db), strict=True):
            if gradient is not None:
                self.dev.upload(gradient, np.ascontiguousarray(padded[inner]))


@register
class Correlation1D(Correlation):
    """Correlation with displacements along the rows alone, as the disparities of a stereo pair, and padding of the rows
    alone: a, b (N, C, H, W) → y (N, S, OH, OW), S = 2R + 1, OH = (H - K + 1) / stride_1, rounded up.

    single_direction 1: displacements to the right, from 0, S = R + 1; -1: to the left, from stride_2 on to one more
    than max_displacement, S = R + 1. Errors: as of Correlation, and a pad below stride_2 with single_direction -1, for
    which the fork reads the row before. Source: Mayer et al. 2016, as in lmb-freiburg/flownet2 and
    yangguorun/SegStereo, src/caffe/layers/correlation_layer1d.cu.
    """

    def setup(self) -> None:
        super().setup()
        self.reach, self.pad = (0, self.p.max_displacement), (0, self.p.pad)
        require.value(self, "single_direction", self.p.single_direction in (-1, 0, 1), "-1, 0 or 1")
        if self.p.single_direction == -1:
            self.before = 0, self.p.stride_2
            if self.p.pad < self.p.stride_2:
                expected = f"at least stride_2, {self.p.stride_2}, with single_direction: -1"
                raise self.error("pad is too small", "pad", expected=expected, found=self.p.pad)

    def _steps(self, reach: int) -> range:
        step = self.p.stride_2
        if not reach or not self.p.single_direction:
            return super()._steps(reach)
        return (
            range(0, reach + 1, step) if self.p.single_direction == 1 else range(-(reach // step + 1) * step, 0, step)
        )
