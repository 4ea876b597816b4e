"""MIL: the probabilities of a bag from those of its instances."""

import math
from types import ModuleType
from typing import Any

from ... import caffelite_pb2 as pb
from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class MIL(ArrayLayer):
    """Multiple instance learning: x (N, C, P...) → y (N, C, 1, 1). MAX (default): the largest of the P instances of a
    bag; the gradient goes to all that equal it. NOR: max(1 - Π (1 - x), max x) of probabilities, the gradient of an
    instance is min(1, (1 - y) / (1 - x)). With context_per_roi K the K samples of a bag are its instances, y (N/K, C,
    1, 1), and x has no P. Errors: N no multiple of K. As in MSRCCS/Caffe and DirtyHarryLYL/HAKE-Action,
    src/caffe/layers/mil_layer.cpp; the latter has MAX alone, and reads K from a second bottom where it is 0."""

    field = "mil_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, *rest), k = require.channels(self, bottoms), self.p.context_per_roi
        self.couples_samples = k > 0
        require.fits(self, bottoms, 0, not k or (n % k == 0 and math.prod(rest) <= 1), f"a multiple of {k} samples N×C")
        self.split = (n // k, k, c) if k else (n, c, math.prod(rest))
        self.axis_of_instances = 1 if k else 2
        return [(self.split[0], c, 1, 1)]

    def divisible(self, axis: int) -> bool:
        return axis == 1 or (axis == 0 and not self.p.context_per_roi)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        instances, axis = x[0].reshape(self.split), self.axis_of_instances
        largest = instances.max(axis)
        if self.p.type == pb.MILParameter.NOR:
            largest = xp.maximum(1 - (1 - instances).prod(axis), largest)
        return largest[..., None, None]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        instances, axis = x[0].reshape(self.split), self.axis_of_instances
        bags, above = (xp.expand_dims(v.reshape(v.shape[:2]), axis) for v in (y[0], dy[0]))
        if self.p.type == pb.MILParameter.NOR:
            certain = instances >= 1
            slopes = xp.where(certain, 1, xp.minimum(1, (1 - bags) / xp.where(certain, 1, 1 - instances)))
        else:
            slopes = instances == bags
        return (above * slopes).reshape(x[0].shape)
