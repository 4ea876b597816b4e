"""Mean: values of channels, added or subtracted."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register, split_axis


@register
class Mean(Layer):
    """y = output_scale · (input_scale · x + mean_scale · m), or - with SUBTRACT, m a value of each channel: x, y
    (N, C, P...), any number of them.

    value: one number for each channel, which repeat where there are more channels. Scales: 1. Errors: no value, a
    number of channels that is no multiple of theirs, a file. As in lmb-freiburg/flownet2,
    src/caffe/layers/mean_layer.cpp, which has no gradient.
    """

    field = "mean_param"
    bottoms = tops = (1, None)
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        if self.p.file:
            remedy = "give values, or subtract the file in the data layer: transform_param { mean_file }"
            raise self.error("file is not supported", "file", remedy=remedy)
        if not self.p.value:
            raise self.error("has no value", "value", expected="one number for each channel")
        require.tops(self, len(self.spec.bottom))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, shape in enumerate(bottoms):
            if len(shape) < 2 or shape[1] % len(self.p.value):
                expected = f"a multiple of {len(self.p.value)} channels"
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(shape))
        self.splits = [split_axis(shape, 1) for shape in bottoms]
        return bottoms

    def build(self, dev: Device) -> None:
        p = self.p
        sign = -1 if p.operation == pb.MeanParameter.SUBTRACT else 1
        shift = sign * p.output_scale * p.mean_scale * np.array(p.value)
        scale = p.output_scale * p.input_scale
        formula = Formula("scale * x + shift", ("x", "shift"), constants=("scale",))
        self._shifts = [dev.empty(channels) for _, channels, _ in self.splits]
        for array in self._shifts:
            dev.upload(array, np.tile(shift, len(array) // len(shift)))
        self._y = [dev.channel_map(formula, ("shift",), *split, scale=scale) for split in self.splits]
        self._dx = dev.map(Formula("scale * dy", ("dy",), constants=("scale",)), scale=scale)

    def forward(self, x: list, y: list) -> None:
        for apply, bottom, shift, top in zip(self._y, x, self._shifts, y, strict=True):
            apply(bottom, shift, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for above, gradient in zip(dy, dx, strict=True):
            if gradient is not None and above is None:
                self.dev.fill(gradient, 0)
            elif gradient is not None:
                self._dx(above, gradient)
