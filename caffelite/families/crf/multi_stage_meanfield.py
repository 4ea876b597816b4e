"""MultiStageMeanfield: mean-field inference of a conditional random field, as a recurrent net."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ...devices.protocol import Device
from ...layers import require
from ...layers.arrays import ArrayLayer, filler
from ...layers.layer import Shape, register
from .lattice import Lattice

EMPTY = 1e-20  # added to the sums of weights


class Field:
    """The random field of one image: messages by place, and by place and color, each kernel's weights sum to 1."""

    def __init__(self, kernels: tuple[Lattice, Lattice]):
        self.kernels = kernels
        self.norms = [1 / (kernel.filtered(np.ones((1, kernel.count))) + EMPTY) for kernel in kernels]

    def messages(self, beliefs: np.ndarray) -> list[np.ndarray]:
        pairs = zip(self.kernels, self.norms, strict=True)
        return [kernel.filtered(beliefs) * norm for kernel, norm in pairs]

    def collected(self, slopes: list[np.ndarray]) -> np.ndarray:
        """The slopes of the beliefs from those of the messages."""
        each = zip(self.kernels, self.norms, slopes, strict=True)
        near, alike = (kernel.filtered(slope * norm, transposed=True) for kernel, norm, slope in each)
        return near + alike


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(0))
    return powers / powers.sum(0)


@register
class MultiStageMeanfield(ArrayLayer):
    """y = u - M (A K q + B L q), repeated: q is softmax over the labels of y before, of ``first`` at the beginning; K q
    and L q are means of q over near pixels, and over near pixels of like color.

    u (N, C, H, W) unary scores, first like u, image (N, 3, H, W) → (N, C, H, W); u and first get gradients. K: weights
    e^(-d²/2), d in pixels / theta_gamma; L: in pixels / theta_alpha and colors / theta_beta, both by a permutohedral
    lattice. A, B, M are learned, (C, C): at first spatial_filter_weight and bilateral_filter_weight on the
    diagonals, for which the fork reads the files spatial.par and bilateral.par, and M minus the unit matrix. Defaults:
    num_iterations 10, theta_alpha 160, theta_beta 3, theta_gamma 3, weights 3 and 5. The host computes it. Errors:
    bottoms of other shapes, fewer than 2 iterations. Source: Zheng et al. 2015, as in torrvision/caffe, branch crfrnn,
    src/caffe/layers/multi_stage_meanfield.cpp.
    """

    field = "multi_stage_meanfield_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        p = self.p
        if p.num_iterations < 2:
            raise self.error("too few iterations", "num_iterations", expected="2 or more", found=p.num_iterations)
        for name in ("theta_alpha", "theta_beta", "theta_gamma"):
            require.value(self, name, getattr(p, name) > 0, "more than 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        n, labels, *size = bottoms[0]
        for i, wanted in ((1, bottoms[0]), (2, (n, 3, *size))):
            require.shape(self, bottoms, i, wanted)
        for value in (self.p.spatial_filter_weight, self.p.bilateral_filter_weight, -1.0):
            self.add_param((labels, labels), filler("diagonal", diag_val=[value] * labels))
        self.size = size
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        super().build(dev)
        y, x = np.mgrid[: self.size[0], : self.size[1]].reshape(2, -1)
        self.positions = np.stack([x, y], 1)
        self.near = Lattice(self.positions / self.p.theta_gamma)

    def _field(self, image: np.ndarray) -> Field:
        colors = image.reshape(3, -1).T / self.p.theta_beta
        alike = Lattice(np.concatenate([self.positions / self.p.theta_alpha, colors], 1))
        return Field((self.near, alike))

    def _read(self, x: tuple) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Bottoms (N, C, pixels), and the matrices."""
        arrays = [self.dev.download(array).astype(float) for array in x]
        return [a.reshape(*a.shape[:2], -1) for a in arrays[:3]], arrays[3:]

    def _steps(self, field: Field, unary: np.ndarray, scores: np.ndarray, matrices: list) -> tuple[np.ndarray, list]:
        """The scores after all iterations, and of each its beliefs, messages and their sum."""
        near, alike, pairwise = matrices
        steps = []
        for _ in range(self.p.num_iterations):
            beliefs = softmax(scores)
            messages = field.messages(beliefs)
            total = near @ messages[0] + alike @ messages[1]
            steps.append((beliefs, messages, total))
            scores = unary - pairwise @ total
        return scores, steps

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        (unary, first, images), matrices = self._read(x)
        rows = zip(unary, first, images, strict=True)
        tops = [self._steps(self._field(image), u, scores, matrices)[0] for u, scores, image in rows]
        return xp.asarray(np.stack(tops).reshape(x[0].shape))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        (unary, first, images), matrices = self._read(x)
        above = self.dev.download(dy[0]).astype(float).reshape(unary.shape)
        dunary, dfirst, slopes = np.zeros_like(unary), np.zeros_like(first), [np.zeros_like(m) for m in matrices]
        near, alike, pairwise = matrices
        for i in range(len(unary)):
            field, ds = self._field(images[i]), above[i]
            for beliefs, messages, total in reversed(self._steps(field, unary[i], first[i], matrices)[1]):
                dunary[i] += ds
                dtotal = -pairwise.T @ ds
                slopes[2] -= ds @ total.T
                slopes[0] += dtotal @ messages[0].T
                slopes[1] += dtotal @ messages[1].T
                dq = field.collected([near.T @ dtotal, alike.T @ dtotal])
                ds = beliefs * (dq - (beliefs * dq).sum(0))
            dfirst[i] = ds
        grown = [dunary.reshape(x[0].shape), dfirst.reshape(x[1].shape)]
        params = [slope.reshape(param.shape) for slope, param in zip(slopes, x[3:], strict=True)]
        return (*map(xp.asarray, grown), None, *map(xp.asarray, params))
