"""Squash: capsules shorter than 1."""

from types import ModuleType
from typing import Any

from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from .capsule import LEAST, groups


@register
class Squash(ArrayLayer):
    """y = (1 - e^(-r)) x / r for each capsule of capsule_dim values, r its length: x, y (N, ...) of one shape, so that
    lengths are below 1; r² is increased by 1e-7. `a` has no effect. Errors: no multiple of capsule_dim. Source: Xi et
    al. 2017, as in chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/squash_layer.cpp, whose gradient is another one."""

    field = "squash_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, count = groups(self, bottoms, "capsule_dim")
        self.split = n, count, self.p.capsule_dim
        return [bottoms[0]]

    def _read(self, xp: ModuleType, x: Any) -> tuple:
        capsules = x.reshape(self.split)
        return capsules, xp.sqrt((capsules**2).sum(2, keepdims=True) + LEAST)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        capsules, r = self._read(xp, x[0])
        return (-xp.expm1(-r) / r * capsules).reshape(x[0].shape)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        capsules, r = self._read(xp, x[0])
        above, factor = dy[0].reshape(self.split), -xp.expm1(-r) / r
        slope = (xp.exp(-r) - factor) / r**2
        return (factor * above + slope * capsules * (above * capsules).sum(2, keepdims=True)).reshape(x[0].shape)
