"""Copy layers: the compiler inserts them where a blob is read in another layout or dtype than it is stored in."""

from __future__ import annotations

from .. import caffelite_pb2 as pb
from ..devices.protocol import Device
from ..errors import NOWHERE, CaffeliteError
from ..layers import Layer, Shape
from .nodes import Value


class Copy(Layer):
    """Copies a blob from one format into another. ``forth``: to channels_last, or to 16-bit numbers; else back."""

    verb = ""
    backward_reads_bottoms = backward_reads_tops = False

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(pb.LayerParameter(name=f"{value.name} {self.verb}", type=self.type), phase, NOWHERE)
        self.forth = forth

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return bottoms


class Transposition(Copy):
    """y (N, H, W, C) = x (N, C, H, W), or back; a view where both are the same bytes."""

    type = "Transposition"
    verb = "transposed"

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(value, forth, phase)
        self.shapes([value.shape])
        self.view = self.same_bytes

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, *spatial = bottoms[0]
        self.split = n, c, spatial[0] * spatial[1]
        if self.view and not self.same_bytes:
            what = f'blob "{self.name.removesuffix(f" {self.verb}")}" cannot change its shape while the net runs'
            raise CaffeliteError(what, found=list(bottoms[0]))
        return bottoms

    @property
    def same_bytes(self) -> bool:
        """Whether both layouts have the numbers in the same order."""
        return self.split[1] == 1 or self.split[2] == 1

    def build(self, dev: Device) -> None:
        n, c, p = self.split
        self.plain, self.swapped = (n, c, p), (n, p, c)
        self.op = dev.transpose
        self._views: dict[bool, tuple] = {}  # by direction: the arrays of the last run, each with its view

    def _run(self, source, target, forth: bool) -> None:
        if self.view:
            return
        views = self._views.get(forth)
        if views is None or views[0] is not source or views[1] is not target:
            shapes = (self.plain, self.swapped) if forth else (self.swapped, self.plain)
            views = self._views[forth] = source, target, source.reshape(shapes[0]), target.reshape(shapes[1])
        self.op(views[2], views[3])

    def forward(self, x: list, y: list) -> None:
        self._run(x[0], y[0], self.forth)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._run(dy[0], dx[0], not self.forth)


class Rounding(Copy):
    """y of 16-bit numbers = x of float32 numbers, or back; both in one layout."""

    type = "Rounding"
    verb = "rounded"

    def build(self, dev: Device) -> None:
        round_, widen = dev.conversions()
        self.op, self.back = (round_, widen) if self.forth else (widen, round_)

    def forward(self, x: list, y: list) -> None:
        self.op(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.back(dy[0], dx[0])
