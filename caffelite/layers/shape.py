"""Layers that move no numbers, or throw them away."""

from __future__ import annotations

import math

from .layer import Layer, Shape, register


@register
class Flatten(Layer):
    """Joins the axes ``axis`` (default 1) to ``end_axis`` (default -1) into one: (N, C, H, W) → (N, C·H·W). As in Caffe."""

    field = "flatten_param"
    view = True
    takes_over_gradient = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        first, last = self.axis(self.p.axis, len(shape)), self.axis(self.p.end_axis, len(shape), "end_axis")
        if last < first:
            raise self.error("end_axis lies before axis", "end_axis", expected=f"{first} or more", found=last)
        return [(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        pass

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        pass


@register
class Silence(Layer):
    """Consumes its bottoms, any number of any shape, so that they are no outputs."""

    bottoms, tops = (1, None), (0, 0)
    differentiable = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return []

    def forward(self, x: list, y: list) -> None:
        pass
