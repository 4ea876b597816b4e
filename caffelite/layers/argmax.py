"""ArgMax: the indices of the largest values."""

import math

from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base.facets import Described
from .base.layer import Layer, Shape, register


@register
@Described(logged=True)
class ArgMax(Layer):
    """The places of the top_k largest numbers (default 1), or with out_max_val the numbers too; no gradient.

    x (N, ...) → y (N, 1, k), places in the flattened sample; with out_max_val (N, 2, k), places and then values. Along
    ``axis`` where it is given: (N, C, P...) → (N, k, P...), places or, with out_max_val, values. Of equal numbers the
    last comes first. Errors: top_k beyond what there is. As in Caffe, but a NaN is never the largest.
    """

    field = "argmax_param"
    couples_samples = False
    differentiable = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, k = bottoms[0], self.p.top_k
        if self.p.HasField("axis"):
            axis = self.axis(self.p.axis, len(shape))
            self.couples_samples = axis == 0
            self.split = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
            top = (*shape[:axis], k, *shape[axis + 1 :])
        else:
            self.split = n, _, _ = shape[0] if shape else 1, math.prod(shape[1:]), 1
            top = (n, 1 + self.p.out_max_val, k, *[1] * (len(shape) - 3))
        if not 1 <= k <= self.split[1]:
            what = "top_k must be within the number of values"
            raise self.error(what, "top_k", expected=f"1 to {self.split[1]}", found=k)
        saved = (self.split[0], k, self.split[2]), None
        self.saved_shapes.update(values=saved, index=saved, flipped=(self.split, None))
        return [top]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.TopK(*self.split, self.p.top_k))
        self._turn = dev.map(Formula("last - place", ("place",), constants=("last",)), last=self.split[1] - 1)

    def forward(self, x: list, y: list) -> None:
        # The operation takes the first of equals, so it is given the numbers back to front.
        values, index, flipped = (self.saved[name] for name in ("values", "index", "flipped"))
        self.dev.assign(x[0].reshape(self.split)[:, ::-1], flipped)
        self.op.forward(flipped, values, index)
        self._turn(index, index)
        if self.p.HasField("axis"):
            self.dev.assign((values if self.p.out_max_val else index).reshape(y[0].shape), y[0])
            return
        tops = y[0].reshape(self.split[0], -1, self.p.top_k)
        for i, top in enumerate((index, values)[: tops.shape[1]]):
            self.dev.assign(top.reshape(self.split[0], self.p.top_k), tops[:, i])
