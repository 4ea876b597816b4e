"""Capsules: their lengths, masks, transforms and routing."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

LEAST = 1e-7  # added to squared lengths


def groups(layer: ArrayLayer, bottoms: list[Shape], field: str) -> tuple[int, int]:
    """The samples, and how many groups of ``field`` values each has. Errors: none, or a remainder."""
    require.positive(layer, field, meaning="the number of values of a capsule or of capsules")
    count, width = getattr(layer.p, field), math.prod(bottoms[0][1:])
    require.fits(layer, bottoms, 0, bottoms[0] and width % count == 0, f"a multiple of {count} values of each sample")
    return bottoms[0][0], width // count


@register
class CapsuleLen(ArrayLayer):
    """The lengths √(Σ x² + 1e-7) of num_class capsules: x (N, ...), y (N, num_class). No gradient. Errors: no multiple
    of num_class. As in chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/capsule_len_layer.cpp."""

    field = "capsule_len_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, width = groups(self, bottoms, "num_class")
        self.split = n, self.p.num_class, width
        return [self.split[:2]]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return xp.sqrt((x[0].reshape(self.split) ** 2).sum(2) + LEAST)


@register
class CapsuleMask(ArrayLayer):
    """y = x for the longest of class_num capsules of a sample, the first of equal ones, 0 for the others: x, y (N, ...)
    of one shape. Errors: no multiple of class_num. As in chenzhenhua986/CAFFE-CapsNet,
    src/caffe/layers/capsule_mask_layer.cpp, which takes the last capsule."""

    field = "capsule_mask_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, width = groups(self, bottoms, "class_num")
        self.split = n, self.p.class_num, width
        return [bottoms[0]]

    def _longest(self, xp: ModuleType, x: Any) -> Any:
        indices = (x.reshape(self.split) ** 2).sum(2).argmax(1)
        return (xp.arange(self.split[1]) == indices[:, None])[..., None]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return xp.where(self._longest(xp, x[0]), x[0].reshape(self.split), 0).reshape(x[0].shape)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return xp.where(self._longest(xp, x[0]), dy[0].reshape(self.split), 0).reshape(x[0].shape)


@register
class CapsuleReshape(ArrayLayer):
    """Capsules of capsule_dim channels each: x (N, C, P...) → y (N, C / capsule_dim · P, capsule_dim), all places of a
    group of channels one after another. Errors: no multiple of capsule_dim channels. As in
    chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/capsule_reshape_layer.cu."""

    field = "capsule_reshape_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        require.positive(self, "capsule_dim", meaning="the number of values of a capsule")
        n, c, dim = *bottoms[0][:2], self.p.capsule_dim
        require.fits(self, bottoms, 0, c % dim == 0, f"a multiple of {dim} channels")
        self.split = n, c // dim, dim, math.prod(bottoms[0][2:])
        return [(n, self.split[1] * self.split[3], dim)]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        n, _, dim, _ = self.split
        return x[0].reshape(self.split).swapaxes(2, 3).reshape(n, -1, dim)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        n, count, dim, positions = self.split
        return dy[0].reshape(n, count, positions, dim).swapaxes(2, 3).reshape(x[0].shape)


NAMES = ("output_capsule_num", "output_capsule_dim")


@register
class CapsuleTransform(ArrayLayer):
    """Of each capsule i of input_capsule_dim values, the predictions of all capsules above: x (N, ...), y (N, I, M),
    y[n, i] = x[n, i] w[i] + b[i]; w (I, input_capsule_dim, M), b (I·M), M = output_capsule_num · output_capsule_dim.

    bias_term: whether there is b (default true). Errors: no multiple of input_capsule_dim. As in
    chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/capsule_transform_layer.cu.
    """

    field = "capsule_transform_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.positive(self, *NAMES, meaning="of the capsules above")
        n, count = groups(self, bottoms, "input_capsule_dim")
        p, self.split = self.p, (n, count, self.p.input_capsule_dim)
        width = p.output_capsule_num * p.output_capsule_dim
        self.add_param((count, p.input_capsule_dim, width), p.weight_filler)
        if p.bias_term:
            self.add_param((count * width,), p.bias_filler)
        return [(n, count, width)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return math.prod(tops[0]) * self.p.input_capsule_dim

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        made = (x[0].reshape(self.split).swapaxes(0, 1) @ x[1]).swapaxes(0, 1)
        return made + x[2].reshape(made.shape[1:]) if len(x) > 2 else made

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        above, capsules = dy[0].swapaxes(0, 1), x[0].reshape(self.split).swapaxes(0, 1)
        below = (above @ x[1].swapaxes(1, 2)).swapaxes(0, 1).reshape(x[0].shape)
        return below, capsules.swapaxes(1, 2) @ above, *[dy[0].sum(0).reshape(-1)] * (len(x) - 2)


@register
class CapsuleRouting(ArrayLayer):
    """Learned sums of predictions: x (N, I, O·E), y (N, O, E), y[n, o] = Σ w[o, i] x[n, i, o]; w (O, I), I, O and E
    input_capsule_num, output_capsule_num and output_capsule_dim. Errors: another bottom. As in
    chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/capsule_routing_layer.cu."""

    field = "capsule_routing_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.positive(self, "input_capsule_num", *NAMES, meaning="of capsules")
        p, n = self.p, bottoms[0][0] if bottoms[0] else 1
        self.split = n, p.input_capsule_num, p.output_capsule_num, p.output_capsule_dim
        if math.prod(bottoms[0]) != math.prod(self.split):
            expected = f"{p.input_capsule_num}×{p.output_capsule_num * p.output_capsule_dim} values of each sample"
            raise self.bottom_error(0, "does not fit", expected=expected, found=list(bottoms[0]))
        self.add_param((p.output_capsule_num, p.input_capsule_num), p.weight_filler)
        return [(n, *self.split[2:])]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return math.prod(bottoms[0])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return xp.einsum("nioe,oi->noe", x[0].reshape(self.split), x[1])

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        below = xp.einsum("noe,oi->nioe", dy[0], x[1]).reshape(x[0].shape)
        return below, xp.einsum("noe,nioe->oi", dy[0], x[0].reshape(self.split))
