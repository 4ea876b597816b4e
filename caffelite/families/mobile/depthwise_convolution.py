"""DepthwiseConvolution and ConvolutionDepthwise: each channel has kernels of its own."""

from ... import caffelite_pb2 as pb
from ...layers.base.layer import Shape, register
from ...layers.convolution import Convolution


@register
class DepthwiseConvolution(Convolution):
    """A Convolution in which each input channel has kernels of its own: group is the number of channels.

    x (N, C, H, W); w (M, 1, kh, kw), b (M); y (N, M, OH, OW), M a multiple of C. Fields and defaults as Convolution's;
    group need not be given. Errors: a group other than C, num_output that C does not divide. Source:
    yonghenglh6/DepthwiseConvolution depthwise_conv_layer.cpp.
    """

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        param, shape = self.spec.convolution_param, bottoms[0]
        axis = self.axis(param.axis, len(shape)) if param.axis < len(shape) else len(shape)
        self.p = pb.ConvolutionParameter()
        self.p.CopyFrom(param)
        if axis < len(shape):
            self.set_group(shape[axis])
        return super().shapes(bottoms)

    def set_group(self, channels: int) -> None:
        if self.p.HasField("group") and self.p.group not in (1, channels):
            raise self.error("group is the number of channels", "group", expected=channels, found=self.p.group)
        self.p.group = channels


@register
class ConvolutionDepthwise(DepthwiseConvolution):
    """A Convolution with one kernel for each input channel, which needs neither num_output nor group and looks at
    neither: x (N, C, H, W); w (C, 1, kh, kw), b (C); y (N, C, OH, OW). Source: conv_dw_layer.cpp of the forks that have
    this type."""

    def setup(self) -> None:
        self.p.num_output = 1  # not looked at
        super().setup()

    def set_group(self, channels: int) -> None:
        self.p.num_output = self.p.group = channels
