"""Im2col: the values of each window, as channels."""

import math

from ..devices.protocol import Device
from .base import sliding
from .base.compilation import Which
from .base.facets import Coordinates
from .base.layer import Layer, Shape, register
from .convolution import spatial_axis


@register
@Coordinates("window")
class Im2col(Layer):
    """The inputs of each window, as channels: x (N, C, H, W) → y (N, C·kh·kw, OH, OW), OH as Convolution's, 0 outside
    the image.

    Any number of spatial axes; kernel_size, stride, pad, dilation and axis as Convolution's. As in Caffe.
    """

    field = "convolution_param"
    converted = sliding.CONVERTED
    needs_images = True
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        axis = spatial_axis(self, shape)
        self.window = sliding.window(self, len(shape) - axis - 1)
        self.out = sliding.whole_windows(self, shape[axis + 1 :], self.window)
        self.x_shape = (math.prod(shape[:axis]), *shape[axis:])
        self.channels_axis, self.couples_samples = axis, axis == 0
        return [(*shape[:axis], shape[axis] * math.prod(self.window.kernel), *self.out)]

    @property
    def divisible_axes(self) -> Which:
        return range(self.channels_axis + 1)

    def build(self, dev: Device) -> None:
        self.op = sliding.im2col(dev, self.x_shape, self.out, self.window)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(dy[0], dx[0])
