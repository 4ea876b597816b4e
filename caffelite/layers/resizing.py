"""Interp, Upsample and Unpooling: layers that change the size of images."""

from __future__ import annotations

import math

from ..devices.protocol import Device
from . import sliding
from .layer import Layer, Shape, register


def check_images(layer: Layer, index: int, shape: Shape) -> None:
    """Errors: a bottom without four axes."""
    if len(shape) != 4:
        raise layer.bottom_error(
            index, "is no batch of images", expected="4 axes N×C×H×W", found=f"shape {list(shape)}"
        )


@register
class Interp(Layer):
    """Resizes images by bilinear interpolation; the centres of the corner pixels of x and y coincide.

    x (N, C, H, W) → y (N, C, OH, OW). H' = H + pad_beg + pad_end (both 0 or negative: rows and columns that are cut
    off). OH = (H' - 1) / shrink_factor + 1, or H' + (H' - 1)·(zoom_factor - 1), where one of both is given alone; else
    height and width; else shrink_factor, then zoom_factor. With use_blob_size OH and OW are those of a second bottom.
    Errors: none of these, a positive pad, an empty image. Source: hszhao/PSPNet
    src/caffe/layers/interp_layer.cpp, src/caffe/util/interp.cpp.
    """

    field = "interp_param"
    bottoms = (1, 2)
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        p = self.p
        for name in ("pad_beg", "pad_end"):
            if getattr(p, name) > 0:
                raise self.error(f"{name} can only cut off", name, expected="0 or less", found=getattr(p, name))
        for name in ("zoom_factor", "shrink_factor"):
            if getattr(p, name) < 1:
                raise self.error(f"{name} must be at least 1", name, found=getattr(p, name))
        self.zooms, self.shrinks = p.HasField("zoom_factor"), p.HasField("shrink_factor")
        sized = p.HasField("height") and p.HasField("width")
        self.sized = sized and self.zooms == self.shrinks
        if self.sized and min(p.height, p.width) < 1:
            name = "height" if p.height < 1 else "width"
            raise self.error(f"{name} must be at least 1", name, found=getattr(p, name))
        if p.use_blob_size != (len(self.spec.bottom) == 2):
            what = "use_blob_size is for two bottoms" if p.use_blob_size else "the second bottom has no effect"
            raise self.error(what, "use_blob_size", remedy="give use_blob_size: true and a second bottom, or neither")
        if not (sized or self.zooms or self.shrinks or p.use_blob_size):
            raise self.error("has no size", expected="height and width, zoom_factor or shrink_factor")

    def _size(self, size: int) -> int:
        if self.shrinks:
            size = (size - 1) // self.p.shrink_factor + 1
        return size + (size - 1) * (self.p.zoom_factor - 1) if self.zooms else size

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, p = bottoms[0], self.p
        check_images(self, 0, shape)
        part = [size + p.pad_beg + p.pad_end for size in shape[2:]]
        if min(part) < 1:
            what = "pad_beg and pad_end leave nothing of the image"
            raise self.error(what, "pad_beg", found=f"an image of {shape[2]}×{shape[3]}")
        if p.use_blob_size:
            check_images(self, 1, bottoms[1])
            out = bottoms[1][2:]
        else:
            out = (p.height, p.width) if self.sized else tuple(map(self._size, part))
        if max(out) > sliding.LARGEST:
            raise self.error("its top is too large", expected=f"at most {sliding.LARGEST} along each axis")
        self.part, self.x_shape, self.y_shape = tuple(part), shape, (*shape[:2], *out)
        self.view = out == shape[2:] == tuple(part)
        return [self.y_shape]

    def divisible(self, axis: int) -> bool:
        return axis < 2

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev: Device) -> None:
        self.op = dev.interpolation(self.x_shape, self.y_shape, (-self.p.pad_beg,) * 2, self.part)

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            self.op.forward(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if len(dx) > 1 and dx[1] is not None:  # the numbers of the second have no effect
            self.dev.fill(dx[1], 0)
        if not self.view and dx[0] is not None:
            self.op.backward(dy[0], dx[0])


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
            raise self.outer_error(f"{fields[0]} needs a second bottom, the places", "upsample_param", fields[0])
        for name, factor in zip(("pad_out_h", "pad_out_w"), self.factors, strict=True):
            if getattr(p, name) and factor != 2 and not self.sized:
                raise self.error(f"{name} is for a factor of 2", name, found=f"factor {factor}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, p = bottoms[0], self.p
        check_images(self, 0, shape)
        if self.masked and bottoms[1] != shape:
            raise self.bottom_error(1, "does not fit", expected=list(shape), found=list(bottoms[1]))
        if self.sized:
            out = p.upsample_h, p.upsample_w
        else:
            less = p.pad_out_h, p.pad_out_w
            out = tuple(size * k - one for size, k, one in zip(shape[2:], self.factors, less, strict=True))
        self.x_shape, self.y_shape = shape, (*shape[:2], *out)
        return [self.y_shape]

    def divisible(self, axis: int) -> bool:
        return axis < 2

    def backward_reads_bottom(self, index: int) -> bool:
        return index == 1

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        (n, c, h, w), (rows, columns) = self.x_shape, self.factors
        if self.masked:
            self.op = dev.unpooling(n * c, h * w, math.prod(self.y_shape[2:]))
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
        place = int(self.dev.download(self.op.bad)[0]) if self.masked else 0
        if not place:
            return None
        height, width = self.y_shape[2:]
        what = f'place {place - 1} of bottom "{self.spec.bottom[1]}" is outside of the top'
        return f"{what}, {height}×{width} pixels a plane: does its size match the image that was pooled?"


@register
class Unpooling(Upsample):
    """Upsample with places, in the fields of DeconvNet: y is 0, but for x at the places of a MAX Pooling's winners.

    x (N, C, H, W), places like x → y (N, C, OH, OW), OH = unpool_h, or unpool_size, or else the larger one of
    (H - 1)·stride + kernel_size and H·stride + 1. Errors: no places, methods other than MAX, a place outside of the
    plane. Source: HyeonwooNoh/caffe src/caffe/layers/unpooling_layer.cpp.
    """

    field = "unpooling_param"
    bottoms = (2, 2)

    def setup(self) -> None:
        p, self.masked, self.factors = self.p, True, (1, 1)
        if p.unpool != p.MAX:
            found = p.UnpoolMethod.Name(p.unpool)
            raise self.error("an unpooling that is not supported", "unpool", expected="MAX", found=found)
        if bool(p.unpool_h) != bool(p.unpool_w):
            raise self.error("give unpool_h and unpool_w, or none", "unpool_h" if p.unpool_h else "unpool_w")
        if p.unpool_size and p.unpool_h:
            raise self.error("gives unpool_size and unpool_h", "unpool_size", remedy="keep one of them")
        if not (p.kernel_size and p.stride):
            name = "stride" if p.kernel_size else "kernel_size"
            raise self.error(f"{name} must be at least 1", name)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, p = bottoms[0], self.p
        check_images(self, 0, shape)
        if bottoms[1] != shape:
            raise self.bottom_error(1, "does not fit", expected=list(shape), found=list(bottoms[1]))
        given = (p.unpool_h or p.unpool_size, p.unpool_w or p.unpool_size)
        reach = [max((size - 1) * p.stride + p.kernel_size, size * p.stride + 1) for size in shape[2:]]
        self.x_shape, self.y_shape = shape, (*shape[:2], *(given if all(given) else reach))
        return [self.y_shape]
