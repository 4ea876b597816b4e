"""ContinuationIndicator: marks the first step of sequences."""

from ...layers.base import require
from ...layers.base.facets import Learned
from ...layers.base.layer import Layer, Shape, register


@register
@Learned(only_shapes=True)
class ContinuationIndicator(Layer):
    """y (T, N) is 0 at the first step and 1 at the others, as RNN and LSTM read it: sequences of one length that start
    with the batch.

    T is time_step, N batch_size, or without it the length of axis ``axis`` (default 0) of a bottom. No gradients.
    Errors: no time_step, neither batch_size nor a bottom. As in xmfbit/warpctc-caffe,
    src/caffe/layers/continuation_indicator_layer.cpp; the axis is that of a later version.
    """

    field = "continuation_indicator_param"
    bottoms = (0, 1)
    differentiable = False

    def setup(self) -> None:
        require.positive(self, "time_step", meaning="the number of steps of a sequence")
        if not self.p.batch_size and not self.spec.bottom:
            raise self.error("batch_size must be positive", "batch_size", remedy="set batch_size, or add a bottom")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        count = self.p.batch_size or bottoms[0][self.axis(self.p.axis, len(bottoms[0]))]
        return [(self.p.time_step, count)]

    def forward(self, x: list, y: list) -> None:
        self.dev.fill(y[0], 1)
        self.dev.fill(y[0][:1], 0)
