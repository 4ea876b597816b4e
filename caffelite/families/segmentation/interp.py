"""Interp: images of another size."""

from ...devices import ops
from ...devices.protocol import Device
from ...layers.base import require, sliding
from ...layers.base.layer import Layer, Shape, register


@register
class Interp(Layer):
    """Resizes images by bilinear interpolation; the centers of the corner pixels of x and y coincide.

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
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = (0, 1)

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
        shape, p = require.images(self, bottoms), self.p
        part = [size + p.pad_beg + p.pad_end for size in shape[2:]]
        if min(part) < 1:
            what = "pad_beg and pad_end leave nothing of the image"
            raise self.error(what, "pad_beg", found=f"an image of {shape[2]}×{shape[3]}")
        if p.use_blob_size:
            require.images(self, bottoms, 1)
            out = bottoms[1][2:]
        else:
            out = (p.height, p.width) if self.sized else tuple(map(self._size, part))
        if max(out) > sliding.LARGEST:
            raise self.error("its top is too large", expected=f"at most {sliding.LARGEST} along each axis")
        self.part, self.x_shape, self.y_shape = tuple(part), shape, (*shape[:2], *out)
        self.view = out == shape[2:] == tuple(part)
        return [self.y_shape]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.Interpolation(self.x_shape, self.y_shape, (-self.p.pad_beg,) * 2, self.part))

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            self.op.forward(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if len(dx) > 1 and dx[1] is not None:  # the numbers of the second have no effect
            self.dev.fill(dx[1], 0)
        if not self.view and dx[0] is not None:
            self.op.backward(dy[0], dx[0])
