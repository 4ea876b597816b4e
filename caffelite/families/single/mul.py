"""Mul: products of blobs that are broadcast."""

import math
from types import ModuleType
from typing import Any

from ... import caffelite_pb2 as pb
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Mul(ArrayLayer):
    """y = a · b, any shape: the last axes correspond, and an axis of one of them that is 1 or lacks is repeated. With
    one bottom, b is a parameter of the shape mul_shape, 0 at first. Errors: axes that do not fit. As in
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe, src/caffe/layers/mul_layer.cpp, which has no gradient.
    """

    field = "mul_param"
    bottoms = (1, 2)
    divisible_axes = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms) == 1:
            for i, side in enumerate(self.p.mul_shape):
                if side < 1:
                    raise self.error("a bad dimension", "mul_shape", i, expected="1 or more", found=side)
            self.add_param(tuple(self.p.mul_shape), pb.FillerParameter())
        a, b = bottoms[0], bottoms[1] if len(bottoms) > 1 else tuple(self.p.mul_shape)
        axes = max(len(a), len(b))
        first, second = ((1,) * (axes - len(shape)) + shape for shape in (a, b))
        if any(i != j and 1 not in (i, j) for i, j in zip(first, second, strict=True)):
            if len(bottoms) > 1:
                raise self.bottom_error(1, "does not fit", expected=f"axes as {list(a)}, or 1", found=list(b))
            expected = f"axes as {list(a)}, or 1"
            raise self.error("mul_shape does not fit", "mul_shape", 0, expected=expected, found=list(b))
        # where the first bottom's first axis is that of the samples
        self.couples_samples = len(bottoms) > 1 and not (len(a) == len(b) and a[:1] == b[:1]) or len(b) > len(a)
        return [tuple(max(pair) for pair in zip(first, second, strict=True))]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return x[0] * x[1]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return _unrepeated(dy[0] * x[1], x[0].shape), _unrepeated(dy[0] * x[0], x[1].shape)


def _unrepeated(slopes: Any, shape: Shape) -> Any:
    """The sums over the axes along which an array of this shape was repeated."""
    slopes = slopes.reshape(
        math.prod(slopes.shape[: slopes.ndim - len(shape)]), *slopes.shape[slopes.ndim - len(shape) :]
    )
    slopes = slopes.sum(0)
    repeated = tuple(i for i, side in enumerate(shape) if side != slopes.shape[i])
    return slopes.sum(repeated, keepdims=True) if repeated else slopes
