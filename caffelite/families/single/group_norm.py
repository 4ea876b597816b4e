"""GroupNorm: groups of channels brought to mean 0 and variance 1."""

import math

from ...layers.base import require
from ...layers.base.facets import Coordinates, Described
from ...layers.base.layer import Shape, register
from ...layers.lrn_mvn import MVN


@register
@Described(purpose="brings groups of channels of each image to mean 0 and variance 1, whatever the size of the batch")
@Coordinates("same")
class GroupNorm(MVN):
    """y = (x - μ) / √(σ² + eps), moments of each group of channels of an image.

    x, y (N, C, ...); a Scale layer may follow. group_num groups (default 32) of C / group_num channels: 1 is layer
    normalization, C is instance normalization. eps 1e-5. Errors: C that group_num does not divide. Source: Wu and He
    2018, as in the forks with a src/caffe/layers/group_norm_layer.cpp without parameters.
    """

    field = "group_norm_param"
    divisible_axes = (0,)
    divides = True
    scale = "1 / sqrt(v + eps)"

    def setup(self) -> None:
        require.value(self, "group_num", self.p.group_num > 0, "at least 1")
        require.value(self, "eps", 0 <= self.p.eps < math.inf, "a finite number from 0")

    def groups(self, shape: Shape) -> int:
        require.channels(self, [shape])
        expected = f"channels that {self.p.group_num} divides (group_num)"
        require.fits(self, [shape], 0, shape[1] % self.p.group_num == 0, expected, "does not divide into groups")
        return shape[0] * self.p.group_num
