"""Layers of nets for mobile devices: depthwise convolution, ReLU6, ShuffleChannel."""

from __future__ import annotations

import math

from .. import caffelite_pb2 as pb
from .convolution import Convolution
from .layer import Layer, Shape, elementwise, register


@register
class DepthwiseConvolution(Convolution):
    """A Convolution in which each input channel has kernels of its own: group is the number of channels.

    x (N, C, H, W); w (M, 1, kh, kw), b (M); y (N, M, OH, OW), M a multiple of C. Fields and defaults as Convolution's;
    group need not be given. Errors: a group other than C, num_output that C does not divide. Source:
    yonghenglh6/DepthwiseConvolution depthwise_conv_layer.cpp.
    """

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        given, shape = self.spec.convolution_param, bottoms[0]
        axis = self.axis(given.axis, len(shape)) if given.axis < len(shape) else len(shape)
        self.p = pb.ConvolutionParameter()
        self.p.CopyFrom(given)
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


# The top shows whether x is between 0 and 6, unless a negative slope below 0 makes it positive.
elementwise(
    "ReLU6",
    y="where(x > 0, where(x > 6, 6, x), slope * x)",
    dx=lambda p: "where({0} < 6, where({0} > 0, dy, slope * dy), 0)".format("y" if p.negative_slope >= 0 else "x"),
    field="relu6_param",
    slope="negative_slope",
)


@register
class ShuffleChannel(Layer):
    """Transposes the channels as a matrix of ``group`` rows (default 1): channel i of group k becomes channel k of
    group i.

    x, y (N, C, P...). Errors: a group that does not divide C. Source: Zhang et al. 2018 (ShuffleNet),
    farmingyard/ShuffleNet shuffle_channel_layer.cpp.
    """

    field = "shuffle_channel_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, group = bottoms[0], self.p.group
        if len(shape) < 2:
            raise self.bottom_error(0, "has no channels", expected="N×C×...", found=f"shape {list(shape)}")
        if group < 1 or shape[1] % group:
            raise self.error(f"group {group} does not divide the {shape[1]} channels", "group")
        self.rows = shape[0], group, shape[1] // group, math.prod(shape[2:])
        self.view = 1 in self.rows[1:3]
        return [shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def _columns(self, blob):
        """The top or its gradient as (N, group, C / group, P), of the bottom's order."""
        n, rows, columns, p = self.rows
        return blob.reshape(n, columns, rows, p).transpose(0, 2, 1, 3)

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            self.dev.assign(x[0].reshape(self.rows), self._columns(y[0]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            self.dev.assign(self._columns(dy[0]), dx[0].reshape(self.rows))
