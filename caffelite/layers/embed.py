"""Embed: the rows of a table that integers select, as InnerProduct on one-hot inputs."""

import math

import numpy as np

from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.division import OutputDivision
from .base.layer import Shape, gradient_of, register


@register
class Embed(OutputDivision):
    """y = w[x] + b: looks up rows of a table by integer index.

    x (...) from 0 to input_dim - 1; w (input_dim, N), b (N); y (..., N), N = num_output. Default: bias_term true.
    Errors: an index out of range. As in Caffe.
    """

    field = "embed_param"
    constant_bottoms = frozenset({0})
    couples_samples = False
    backward_reads_tops = False

    def setup(self) -> None:
        for name, what in (("num_output", "the width of a row"), ("input_dim", "how many rows there are")):
            require.positive(self, name, meaning=what)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rows, width = self.p.input_dim, self.p.num_output
        self.index_shape, self.count = bottoms[0], math.prod(bottoms[0])
        self.add_param((rows, width), self.p.weight_filler, "weight_filler")
        if self.p.bias_term:
            self.add_param((width,), self.p.bias_filler, "bias_filler")
        return [(*bottoms[0], width)]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.Take(self.p.input_dim, self.p.num_output, self.count))
        split = self.count, self.p.num_output, 1
        self._bias = dev.channel_map(Formula("y + b", ("y", "b")), ("b",), *split)
        self._db = dev.channel_sum(Formula("dy", ("dy",)), (), *split)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(self.params[0].data, x[0], y[0])
        if self.p.bias_term:
            self._bias(y[0], self.params[1].data, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = gradient_of(self, 0), gradient_of(self, 1)
        if dw is not None:
            self.op.backward(x[0], dy[0], dw, add_w)
        if db is not None:
            self._db(dy[0], db, add=add_b)

    def faults(self) -> str | None:
        bad = int(self.dev.download(self.op.bad)[0])
        if not bad:
            return None
        index = [int(i) for i in np.unravel_index(bad - 1, self.index_shape)] if self.index_shape else []
        return (
            f'a number in bottom "{self.spec.bottom[0]}" names no row (at {index}); expected integers 0 to '
            f"{self.p.input_dim - 1}"
        )
