"""Spfilter: weights of the places of maps."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Spfilter(ArrayLayer):
    """y_i = s x_i, one weight for each place: x_i, y_i (N, C_i, P...), the last bottom s (N, ...) of as many values as
    places. Errors: not one top for each x_i, another size. As in hyojinie/crn, src/caffe/layers/spfilter_layer.cpp."""

    bottoms, tops = (2, None), (1, None)
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        *maps, weights = bottoms
        if len(self.spec.top) != len(maps):
            raise self.error(f"has {len(self.spec.top)} top blobs", "top", expected=f"{len(maps)}", outer=True)
        for i, shape in enumerate(maps):
            require.channels(self, bottoms, i)
            count, places = shape[0], math.prod(shape[2:])
            if weights[:1] != (count,) or math.prod(weights) != count * places:
                expected = f"{count} samples of {places} values"
                raise self.bottom_error(len(maps), "does not fit", expected=expected, found=list(weights))
        return maps

    def _weights(self, x: tuple, i: int) -> Any:
        return x[-1].reshape(len(x[i]), 1, *x[i].shape[2:])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return tuple(x[i] * self._weights(x, i) for i in range(len(x) - 1))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = [above * self._weights(x, i) for i, above in enumerate(dy)]
        of_weights = sum((above * x[i]).sum(1).reshape(x[-1].shape) for i, above in enumerate(dy))
        return *slopes, of_weights
