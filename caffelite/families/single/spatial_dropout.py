"""SpatialDropout: whole channels are dropped."""

import math

from ... import caffelite_pb2 as pb
from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, random_key, register


@register
class SpatialDropout(Layer):
    """In TRAIN y = x · mask / (1 - dropout_ratio), a mask for each channel of each sample, 1 with probability 1 -
    dropout_ratio (default 0.5); in TEST y = x, unless sample_weights_test. x, y (N, C, P...).

    Errors: a ratio outside [0, 1). Source: Tompson et al. 2015, as in fireae/caffe_latte,
    src/caffe/layers/spatial_dropout_layer.cpp, which has one mask for all samples.
    """

    field = "spatial_dropout_param"
    in_place = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = False

    def setup(self) -> None:
        self.training = self.phase == pb.TRAIN or self.p.sample_weights_test
        self.view = not self.training
        require.value(self, "dropout_ratio", 0 <= self.p.dropout_ratio < 1, "0 or more and less than 1")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.n, self.c = require.channels(self, bottoms)[:2]
        self.pixels = math.prod(bottoms[0][2:])
        if self.training:
            self.saved_shapes["mask"] = ((self.n, self.c), "uint8")
            self.saved_shapes["factor"] = ((self.n, self.c), None)
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        if self.training:
            self._ones = dev.empty((self.n, self.c))
            dev.fill(self._ones, 1)
            self._draw = dev.build(ops.Dropout(self.n, self.c, self.p.dropout_ratio, random_key(self), self.context))
            formula = Formula("factor * x", ("x", "factor"))
            self._scaled = dev.channel_map(formula, ("factor",), 1, self.n * self.c, self.pixels)

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self._draw.forward(self._ones, self.saved["mask"], self.saved["factor"])
            self._scaled(x[0], self.saved["factor"], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.training:
            self._scaled(dy[0], self.saved["factor"], dx[0])
