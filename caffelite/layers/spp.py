"""SPP: a pyramid of poolings."""

import math

from ..devices import Window
from ..devices.protocol import Device
from .base import require
from .base.facets import Coordinates
from .base.layer import Shape, random_key, register
from .pooling import Pooled, no_padding, pooled


@register
@Coordinates("none")
class SPP(Pooled):
    """Spatial pyramid pooling: level l pools each channel to 2^l × 2^l values; the levels are concatenated.

    x (N, C, H, W); y (N, C·(1 + 4 + 16 + …)), or (N, C, 1, 1) for a pyramid of one level. pool: MAX (default), AVE or
    STOCHASTIC, as in Pooling. Errors: an image too small for its highest level. Source: He et al. 2014, windows as in
    Caffe.
    """

    field = "spp_param"
    needs_images = True

    def setup(self) -> None:
        super().setup()
        if not 1 <= self.p.pyramid_height <= 16:
            found = self.p.pyramid_height if self.p.HasField("pyramid_height") else "none"
            expected = "1 level or more, at most 16"
            raise self.error("a bad pyramid_height", "pyramid_height", expected=expected, found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.images(self, bottoms)
        self.x_shape, self.levels, n = shape, [], shape[0]
        for level in range(self.p.pyramid_height):
            kernel = tuple(-(-size // 2**level) for size in shape[2:])
            pad = tuple((k * 2**level - size + 1) // 2 for k, size in zip(kernel, shape[2:], strict=True))
            k = Window(kernel, kernel, pad)
            if any(pad >= kernel for pad, kernel in zip(k.pad, k.kernel, strict=True)):
                what = (
                    f"level {level} of the pyramid, {2**level} by {2**level}, is too fine for an image of "
                    f"{shape[2]}×{shape[3]}"
                )
                raise self.error(what, "pyramid_height", remedy="make the pyramid lower, or the image larger")
            if self.method == "STOCHASTIC":
                no_padding(self, k, "pool")
            self.levels.append((k, (*shape[:2], *pooled(self, shape[2:], k))))
            self.index(f"index {level}", self.levels[-1][1])
            if self.p.pyramid_height > 1:
                self.saved_shapes[f"level {level}"] = (self.levels[-1][1], None)
        if len(self.levels) == 1:
            return [self.levels[0][1]]
        sizes = [math.prod(y) // n for _, y in self.levels]
        self.ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.saved_shapes["part"] = (shape, None)
        return [(n, self.ends[-1])]

    def build(self, dev: Device) -> None:
        self.ops = [
            self.operation(dev, self.x_shape, y, k, random_key(self) + i) for i, (k, y) in enumerate(self.levels)
        ]

    def forward(self, x: list, y: list) -> None:
        if len(self.ops) == 1:
            return self.ops[0].forward(x[0], y[0], self.saved.get("index 0"))
        for i, op in enumerate(self.ops):
            level = self.saved[f"level {i}"]
            op.forward(x[0], level, self.saved.get(f"index {i}"))
            self.dev.assign(level.reshape(level.shape[0], -1), y[0][:, self.ends[i] : self.ends[i + 1]])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if len(self.ops) == 1:
            return self.ops[0].backward(dy[0], self.saved.get("index 0"), dx[0])
        for i, op in enumerate(self.ops):
            level, part = self.saved[f"level {i}"], self.saved["part"] if i else dx[0]
            self.dev.assign(dy[0][:, self.ends[i] : self.ends[i + 1]], level.reshape(level.shape[0], -1))
            op.backward(level, self.saved.get(f"index {i}"), part)
            if i:
                self.dev.add(part, dx[0])
