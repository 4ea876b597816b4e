"""Sum: of blobs, or of groups of channels."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Sum(ArrayLayer):
    """The sum of bottoms of one shape, x, y (N, ...); or with num_component K the sums of K groups of channels: x
    (N, C, P...) → y (N, K, P...). Errors: no multiple of K channels, several bottoms with K. As in the forks with a
    SumLayer of several bottoms, and of Fisher vectors with sum_param."""

    field = "sum_param"
    bottoms = (1, None)
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        count = self.p.num_component
        for i in range(1, len(bottoms)):
            if count or bottoms[i] != bottoms[0]:
                expected = "one bottom with num_component" if count else list(bottoms[0])
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(bottoms[i]))
        if not count:
            return [bottoms[0]]
        require.channels(self, bottoms)
        require.fits(self, bottoms, 0, bottoms[0][1] % count == 0, f"a multiple of {count} channels")
        return [(bottoms[0][0], count, *bottoms[0][2:])]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        if not self.p.num_component:
            return sum(x[1:], x[0])
        return x[0].reshape(len(x[0]), self.p.num_component, -1, *x[0].shape[2:]).sum(2)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        if not self.p.num_component:
            return [dy[0]] * len(x)
        return xp.repeat(dy[0], x[0].shape[1] // self.p.num_component, axis=1)
