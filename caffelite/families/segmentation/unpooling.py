"""Unpooling of DeconvNet."""

from ...layers.base import require, sliding
from ...layers.base.layer import Shape, register
from .upsample import Upsample


@register
class Unpooling(Upsample):
    """Upsample with places, in the fields of DeconvNet: y is 0, but for x at the places of a MAX Pooling's winners.

    x (N, C, H, W), places like x → y (N, C, OH, OW), OH = unpool_h, or unpool_size, or else (H - 1)·stride +
    kernel_size - 2·pad. Errors: no places, methods other than MAX, a place outside of the plane. Source:
    HyeonwooNoh/caffe src/caffe/layers/unpooling_layer.cpp, where OH is at least H·stride - pad + 1 unless given.
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

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, p = require.images(self, bottoms), self.p
        require.shape(self, bottoms, 1, shape)
        explicit = (p.unpool_h or p.unpool_size, p.unpool_w or p.unpool_size)
        window = sliding.window(self, 2)
        sides = zip(shape[2:], window.kernel, window.stride, window.pad, strict=True)
        reach = [(size - 1) * stride + kernel - 2 * pad for size, kernel, stride, pad in sides]
        if not all(explicit) and min(reach) < 1:
            raise self.error("leaves nothing", "pad", found=f"pad {list(window.pad)}")
        self.x_shape, self.y_shape = shape, (*shape[:2], *(explicit if all(explicit) else reach))
        return [self.y_shape]
