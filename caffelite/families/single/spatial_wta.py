"""SpatialWta: the winners among neighboring pixels."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class SpatialWta(ArrayLayer):
    """y = x at the pixel of each window whose |x| is the largest, the first of equal ones, and 0 elsewhere: x (N, C, H,
    W), y (N, C, H, W). A second top is 1 at these pixels, and has no gradient.

    Windows lie stride apart, without padding, as far as they fit; global_wta: one, of the size of x. dx = dy at these
    pixels, 0 elsewhere. NaN stays NaN, where the fork writes 0. Errors: no size of a window, one larger than x, a field
    beside global_wta or two names of one. Source: Makhzani and Frey 2015, as in a fork with
    src/caffe/layers/spatial_wta_layer.cpp.
    """

    field = "spatial_wta_param"
    tops = (1, 2)
    constant_tops = frozenset({1})
    needs_images = True
    couples_samples = False
    backward_reads_tops = False

    def setup(self) -> None:
        if self.p.global_wta:
            for descriptor, _ in self.p.ListFields():
                if descriptor.name != "global_wta":
                    raise self.error("a field beside global_wta", descriptor.name, remedy="leave one of them out")
            return
        self.kernel = self._pair("kernel", "kernel_size")
        self.stride = self._pair("stride", "stride")

    def _pair(self, name: str, both: str) -> tuple[int, int]:
        """Rows and columns; both: the field for the two."""
        sides = f"{name}_h", f"{name}_w"
        own = any(self.p.HasField(side) for side in sides)
        if own and self.p.HasField(both):
            raise self.error(f"{both} together with {sides[0]} or {sides[1]}", both, remedy="keep one of them")
        names = sides if own else (both, both)
        for side in names:
            require.positive(self, side)
        return getattr(self.p, names[0]), getattr(self.p, names[1])

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        size = require.images(self, bottoms)[2:]
        if self.p.global_wta:
            self.kernel, self.stride = (size[0], size[1]), (1, 1)
        if self.kernel[0] > size[0] or self.kernel[1] > size[1]:
            expected = "{} × {} pixels or more".format(*self.kernel)
            raise self.bottom_error(0, "is smaller than a window", expected=expected, found=list(bottoms[0]))
        self.windows = tuple((side - k) // s + 1 for side, k, s in zip(size, self.kernel, self.stride, strict=True))
        return super().shapes(bottoms)

    def _at(self, x: Any, row: int, column: int) -> Any:
        """The pixels at one position of all windows, a view."""
        (down, across), (rows, columns) = self.stride, self.windows
        return x[:, :, row : row + down * rows : down, column : column + across * columns : across]

    def _winners(self, xp: ModuleType, x: Any) -> Any:
        size = xp.abs(x)
        positions = [(row, column) for row in range(self.kernel[0]) for column in range(self.kernel[1])]
        largest = xp.full((*x.shape[:2], *self.windows), -xp.inf, x.dtype)
        which = xp.full(largest.shape, -1)
        for i, position in enumerate(positions):
            larger = self._at(size, *position) > largest
            largest, which = xp.where(larger, self._at(size, *position), largest), xp.where(larger, i, which)
        winners = xp.zeros(x.shape, bool)
        for i, position in enumerate(positions):
            view = self._at(winners, *position)
            view |= which == i
        return winners

    def compute(self, xp: ModuleType, x: Any) -> Any:
        winners = self._winners(xp, x)
        unknown = xp.isnan(x)
        masked = xp.where(winners | unknown, x, 0)
        return (masked, xp.where(unknown, x, winners))[: len(self.spec.top)]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return xp.where(self._winners(xp, x[0]), dy[0], 0)
