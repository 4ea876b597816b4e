"""Pooling over any number of axes, of values at a distance: as in OpenCL Caffe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from . import require, sliding
from .layer import Layer, Shape, register_variant

NAMES = ("kernel_size", "stride", "pad")


def applies(spec: pb.LayerParameter) -> bool:
    p = spec.pooling_param
    return any(step != 1 for step in p.dilation) or any(getattr(p, f"more_{name}") for name in NAMES)


@register_variant(applies)
class VolumePooling(Layer):
    """The largest number of each window, over any number of axes: x (N, C, L, H, W, ...) → (N, C, OL, OH, OW, ...).
    Selected by a dilation other than 1, or by several values of kernel_size, stride or pad, one for each axis.

    O = ⌈(size + 2 pad - reach) / stride⌉ + 1, reach = dilation (kernel_size - 1) + 1, less a last window that would
    start beyond the pad. Defaults: stride 1, pad 0, dilation 1. The host computes it. Errors: AVE, STOCHASTIC, a kernel
    that does not fit, another number of values than of axes. Source: naibaf7/caffe src/caffe/layers/pooling_layer.cpp.
    """

    type = "Pooling"
    field = "pooling_param"
    requires_host = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = (0, 1)

    def setup(self) -> None:
        p = self.p
        if p.pool != p.MAX:
            found = p.PoolMethod.Name(p.pool)
            raise self.error("pools over these axes by MAX alone", "pool", expected="MAX", found=found)
        if p.global_pooling:
            raise self.error("global_pooling takes its kernel from the bottom", "global_pooling", remedy="drop it")

    def _per_axis(self, name: str, rank: int, default: int) -> tuple[int, ...]:
        more = f"more_{name}"
        if name == "dilation" or not getattr(self.p, more):
            return sliding.per_axis(self, name, rank, default, "kernel" if name == "kernel_size" else None)
        values = (getattr(self.p, name), *getattr(self.p, more))
        if len(values) != rank:
            expected = f"one, or one for each of the {rank} spatial axes"
            raise self.error(f"has {len(values)} values of {name}", more, 0, expected=expected)
        return values

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, len(shape) >= 3, "N×C×...", "has no spatial axes")
        rank = len(shape) - 2
        self.kernel, self.stride = self._per_axis("kernel_size", rank, 0), self._per_axis("stride", rank, 1)
        self.pad, self.dilation = self._per_axis("pad", rank, 0), self._per_axis("dilation", rank, 1)
        for name, values in (("kernel_size", self.kernel), ("stride", self.stride), ("dilation", self.dilation)):
            if min(values) < 1:
                raise self.error(f"{name} must be at least 1", name, found=min(values))
        self.counts = tuple(self._count(axis, size) for axis, size in enumerate(shape[2:]))
        top = (*shape[:2], *self.counts)
        self.saved_shapes["index"] = (top, "int32")
        return [top]

    def _count(self, axis: int, size: int) -> int:
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        pad, stride = self.pad[axis], self.stride[axis]
        count = -(-(size + 2 * pad - reach) // stride) + 1
        if pad and (count - 1) * stride >= size + pad:
            count -= 1
        if count < 1 or (count - 1) * stride >= size + pad or pad >= self.kernel[axis]:
            found = f"kernel {self.kernel[axis]}, stride {stride}, pad {pad}, dilation {self.dilation[axis]}"
            raise self.error(f"its windows do not fit {size} along axis {axis + 2}", "kernel_size", found=found)
        return count

    def _offsets(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """For each place of the kernel its number, and the values of a padded blob there, one of each window."""
        for number, offset in enumerate(np.ndindex(self.kernel)):
            starts = (step * at for step, at in zip(self.dilation, offset, strict=True))
            axes = zip(starts, self.counts, self.stride, strict=True)
            yield number, (..., *(slice(start, start + (count - 1) * step + 1, step) for start, count, step in axes))

    def _borders(self, spatial: Shape) -> list[tuple[int, int]]:
        """What surrounds an image so that each window is in it."""
        after = (
            max(0, (count - 1) * stride + dilation * (kernel - 1) + 1 - size - pad)
            for count, stride, dilation, kernel, size, pad in zip(
                self.counts, self.stride, self.dilation, self.kernel, spatial, self.pad, strict=True
            )
        )
        return [(0, 0), (0, 0), *zip(self.pad, after, strict=True)]

    def forward(self, x: list, y: list) -> None:
        image = self.dev.download(x[0])
        padded = np.pad(image, self._borders(image.shape[2:]), constant_values=-np.inf)
        top, index = np.full(y[0].shape, -np.inf, image.dtype), np.zeros(y[0].shape, np.int32)
        for number, offset in self._offsets():
            values = padded[offset]
            larger = (values > top) | np.isnan(values)
            top, index = np.where(larger, values, top), np.where(larger, number, index)
        self.dev.upload(y[0], top)
        self.dev.upload(self.saved["index"], index.astype(np.int32))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        above, index = self.dev.download(dy[0]), self.dev.download(self.saved["index"])
        borders = self._borders(dx[0].shape[2:])
        padded = np.zeros([before + size + after for size, (before, after) in zip(dx[0].shape, borders, strict=True)])
        for number, offset in self._offsets():
            padded[offset] += np.where(index == number, above, 0)
        inner = tuple(slice(before, before + size) for size, (before, _) in zip(dx[0].shape, borders, strict=True))
        self.dev.upload(dx[0], np.ascontiguousarray(padded[inner], self.dev.dtype))
