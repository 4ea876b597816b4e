"""Upsample: larger images, from the places of a pooling's winners or by repetition."""

import math

from ...devices import ops
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register


@register
class Upsample(Layer):
    """With a second bottom, the places of a MAX Pooling's winners: y is 0, but for x at these places. With one bottom:
    each number ``scale`` times along both axes.

    x (N, C, H, W), places like x → y (N, C, OH, OW), OH = upsample_h, or scale·H (scale_h·H), less 1 where pad_out_h.
    Of equal places the last is written, and each gets the gradient of its place. Default: scale 2. Errors: a place
    outside of the plane, factors below 2, fields of a size for one bottom. Source: alexgkendall/caffe-segnet
    src/caffe/layers/upsample_layer.cpp; with one bottom eric612/MobileNet-YOLO src/caffe/layers/upsample_layer.cpp.
    """

    field = "upsample_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset({1})
    couples_samples = False
    needs_images = True
    backward_reads_bottoms = (1,)
    backward_reads_tops = False
    divisible_axes = (0, 1)

    def setup(self) -> None:
        p, self.masked = self.p, len(self.spec.bottom) == 2
        self.factors = (p.scale_h, p.scale_w) if p.HasField("scale_h") or p.HasField("scale_w") else (p.scale,) * 2
        self.sized = p.HasField("upsample_h") and p.HasField("upsample_w")
        if p.HasField("upsample_h") != p.HasField("upsample_w"):
            name = "upsample_h" if p.HasField("upsample_h") else "upsample_w"
            raise self.error("give upsample_h and upsample_w, or none of them", name)
        if p.HasField("scale_h") != p.HasField("scale_w"):
            raise self.error("give scale_h and scale_w, or none", "scale_h" if p.HasField("scale_h") else "scale_w")
        if min(self.factors) < (2 if self.masked and not self.sized else 1):
            name = "scale_h" if p.HasField("scale_h") else "scale"
            raise self.error("a bad factor", name, expected="2 or more", found=min(self.factors))
        if not self.masked and (fields := [f for f in ("upsample_h", "pad_out_h", "pad_out_w") if p.HasField(f)]):
            raise self.error(f"{fields[0]} needs a second bottom, the places", "upsample_param", fields[0], outer=True)
        for name, factor in zip(("pad_out_h", "pad_out_w"), self.factors, strict=True):
            if getattr(p, name) and factor != 2 and not self.sized:
                raise self.error(f"{name} is for a factor of 2", name, found=f"factor {factor}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, p = require.images(self, bottoms), self.p
        require.fits(self, bottoms, 1, not self.masked or bottoms[1] == shape, list(shape))
        if self.sized:
            out = p.upsample_h, p.upsample_w
        else:
            less = p.pad_out_h, p.pad_out_w
            out = tuple(size * k - one for size, k, one in zip(shape[2:], self.factors, less, strict=True))
        self.x_shape, self.y_shape = shape, (*shape[:2], *out)
        return [self.y_shape]

    def build(self, dev: Device) -> None:
        (n, c, h, w), (rows, columns) = self.x_shape, self.factors
        if self.masked:
            self.op = dev.build(ops.Unpooling(n * c, h * w, math.prod(self.y_shape[2:])))
        self.blocks = (n * c, h, rows, w, columns)

    def forward(self, x: list, y: list) -> None:
        if self.masked:
            return self.op.forward(x[0], x[1], y[0])
        planes, h, _, w, _ = self.blocks
        self.dev.assign(x[0].reshape(planes, h, 1, w, 1), y[0].reshape(self.blocks))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if dx[0] is None:
            return
        if self.masked:
            return self.op.backward(dy[0], x[1], dx[0])
        planes, h, rows, w, columns = self.blocks
        blocks, bottom = dy[0].reshape(self.blocks), dx[0].reshape(planes, h, w)
        for i in range(rows * columns):
            part = blocks[:, :, i // columns, :, i % columns]
            (self.dev.add if i else self.dev.assign)(part, bottom)

    def faults(self) -> str | None:
        wrong = int(self.dev.download(self.op.bad)[0]) if self.masked else 0
        if not wrong:
            return None
        height, width = self.y_shape[2:]
        what = f'place {wrong - 1} of bottom "{self.spec.bottom[1]}" is outside of the top'
        return f"{what}, {height}×{width} pixels a plane: does its size match the image that was pooled?"
