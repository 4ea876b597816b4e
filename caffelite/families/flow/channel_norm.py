"""ChannelNorm: the length of each pixel's vector."""

import numpy as np

from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register


@register
class ChannelNorm(Layer):
    """y = √(Σ x²) over the channels: x (N, C, P...) → y (N, 1, P...). dx = dy x / (y + 1e-9). The host computes it.
    Errors: no channels. As in lmb-freiburg/flownet2, src/caffe/layers/channel_norm_layer.cpp."""

    requires_host = True
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        return [(bottoms[0][0], 1, *bottoms[0][2:])]

    def forward(self, x: list, y: list) -> None:
        values = self.dev.download(x[0]).astype(float)
        self.dev.upload(y[0], np.sqrt((values**2).sum(1, keepdims=True)))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        values, lengths, above = (self.dev.download(blob).astype(float) for blob in (x[0], y[0], dy[0]))
        self.dev.upload(dx[0], above * values / (lengths + 1e-9))
