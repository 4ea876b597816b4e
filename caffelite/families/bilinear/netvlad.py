"""Netvlad: residuals to centers, summed over an image."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Netvlad(ArrayLayer):
    """y[n, k] = Σ_p a[n, k, p] (x[n, :, p] + c[k]): assignments a (N, K, P...), features x (N, D, P...) → y (N, K D).

    The parameter c (K, D) holds the negative centers, weight_filler by default 0. cluster_num K, local_dim D, vlad_dim
    K D. Errors: bottoms that do not fit these or each other. Source: Arandjelović et al. 2016, as in hyojinie/crn,
    src/caffe/layers/netvlad_layer.cpp.
    """

    field = "netvlad_param"
    bottoms = (2, 2)
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        k, d = self.p.cluster_num, self.p.local_dim
        require.value(self, "vlad_dim", self.p.vlad_dim == k * d, f"{k} × {d} = {k * d}")
        for i, count in enumerate((k, d)):
            require.channels(self, bottoms, i)
            expected = (bottoms[0][0], count, *bottoms[0][2:])
            require.shape(self, bottoms, i, expected)
        self.add_param((k, d), self.p.weight_filler)
        return [(bottoms[0][0], k * d)]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        a, features = (blob.reshape(*blob.shape[:2], -1) for blob in x[:2])
        y = xp.matmul(a, features.swapaxes(1, 2)) + a.sum(2)[..., None] * x[2]
        return y.reshape(len(y), -1)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        a, features = (blob.reshape(*blob.shape[:2], -1) for blob in x[:2])
        slopes = dy[0].reshape(len(a), *x[2].shape)
        of_assignments = xp.matmul(slopes, features) + (slopes * x[2]).sum(2)[..., None]
        of_features = xp.matmul(slopes.swapaxes(1, 2), a)
        of_centers = (a.sum(2)[..., None] * slopes).sum(0)
        return of_assignments.reshape(x[0].shape), of_features.reshape(x[1].shape), of_centers
