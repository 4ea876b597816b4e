"""ChannelNorm: the length of each pixel's vector."""

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.normalize import ChannelRows


@register
class ChannelNorm(Layer):
    """y = √(Σ x²) over the channels: x (N, C, P...) → y (N, 1, P...). dx = dy x / (y + 1e-9). Errors: no channels. As
    in lmb-freiburg/flownet2, src/caffe/layers/channel_norm_layer.cpp."""

    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.whole = require.channels(self, bottoms)
        return [(bottoms[0][0], 1, *bottoms[0][2:])]

    def build(self, dev: Device) -> None:
        self._rows = ChannelRows(dev, self.whole)
        self._buffer = self._rows.empty()
        self._squares = dev.channel_sum(Formula("x * x", ("x",)), (), *self._rows.split)
        self._root = dev.map(Formula("sqrt(square)", ("square",)))
        slope = Formula("dy * x / (y + 1e-9)", ("x", "y", "dy"))
        self._slope = dev.channel_map(slope, ("y", "dy"), *self._rows.split)

    def forward(self, x: list, y: list) -> None:
        self._squares(self._rows.read(x[0], self._buffer), y[0])
        self._root(y[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        rows = self._rows.read(x[0], self._buffer)
        slopes = dx[0] if self._buffer is None else rows
        self._slope(rows, y[0], dy[0], slopes)
        self._rows.write(slopes, dx[0])
