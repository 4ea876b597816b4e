"""Unpooling of DeconvNet."""

from ...layers import require
from ...layers.layer import Shape, register
from .upsample import Upsample


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
        shape, p = require.images(self, bottoms), self.p
        require.shape(self, bottoms, 1, shape)
        explicit = (p.unpool_h or p.unpool_size, p.unpool_w or p.unpool_size)
        reach = [max((size - 1) * p.stride + p.kernel_size, size * p.stride + 1) for size in shape[2:]]
        self.x_shape, self.y_shape = shape, (*shape[:2], *(explicit if all(explicit) else reach))
        return [self.y_shape]
