"""Crop: a region of the bottom."""

from .base import require
from .base.compilation import Which
from .base.facets import Coordinates
from .base.layer import Layer, Shape, register


@register
@Coordinates("offset")
class Crop(Layer):
    """The part of the first bottom that is as large as the second from ``axis`` (default 2) on, ``offset`` from its
    start.

    x (N, C, H, W), reference (..., h, w) → (N, C, h, w). offset: none (0), one for all, or one for each axis from
    ``axis`` on. The reference gets no gradient. Errors: a part that leaves x, bottoms of another number of axes. As in
    Caffe.
    """

    field = "crop_param"
    bottoms = (2, 2)
    needs_images = True
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        whole, reference = bottoms
        require.fits(
            self, bottoms, 1, len(whole) == len(reference), f"{len(whole)}, as the first", "has another number of axes"
        )
        axis, offsets_set = self.axis(self.p.axis, len(whole)), list(self.p.offset)
        self.first, self.couples_samples = axis, axis == 0
        if len(offsets_set) not in (0, 1, len(whole) - axis):
            what = f"has {len(offsets_set)} values of offset"
            expected = f"one, or one for each of the {len(whole) - axis} axes from axis {axis}"
            raise self.error(what, "offset", min(len(offsets_set) - 1, len(whole) - axis), expected=expected)
        offsets = offsets_set if len(offsets_set) == len(whole) - axis else (offsets_set or [0]) * (len(whole) - axis)
        for i, (start, size, room) in enumerate(zip(offsets, reference[axis:], whole[axis:], strict=True)):
            if start + size > room:
                what = f'its part leaves "{self.spec.bottom[0]}" {list(whole)} along axis {axis + i}'
                path = ("offset", min(i, len(offsets_set) - 1)) if offsets_set else ()
                raise self.error(what, *path, expected=f"offset + {size} up to {room}", found=f"offset {start}")
        parts = [slice(start, start + size) for start, size in zip(offsets, reference[axis:], strict=True)]
        self.part = (*[slice(None)] * axis, *parts)
        return [(*whole[:axis], *reference[axis:])]

    @property
    def divisible_axes(self) -> Which:
        return range(self.first)

    def forward(self, x: list, y: list) -> None:
        self.dev.assign(x[0][self.part], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for bottom in dx:  # the reference's is 0, for nets where it learns by another way
            if bottom is not None:
                self.dev.fill(bottom, 0)
        if dx[0] is not None:
            self.dev.assign(dy[0], dx[0][self.part])
