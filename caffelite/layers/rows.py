"""Layers that select samples of a batch: BatchReindex and Filter."""

from __future__ import annotations

import math

import numpy as np

from ..devices.protocol import Device
from ..errors import CaffeliteError
from .layer import Layer, Shape, register


@register
class BatchReindex(Layer):
    """y[m] = x[index[m]]: reorders, drops or repeats samples; a sample's gradient is the sum over its
    copies.

    x (N, ...), index (M), integers 0 to N - 1 → y (M, ...). Errors: an index out of range. As in Caffe.
    """

    bottoms = (2, 2)
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if not bottoms[0]:
            raise self.bottom_error(0, "has no samples", expected="1 axis or more", found="shape []")
        if len(bottoms[1]) != 1:
            raise self.bottom_error(1, "is no list of samples", expected="1 axis", found=f"shape {list(bottoms[1])}")
        self.n, self.m, self.width = bottoms[0][0], bottoms[1][0], math.prod(bottoms[0][1:])
        return [(self.m, *bottoms[0][1:])]

    def backward_reads_bottom(self, index: int) -> bool:
        return index == 1

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self.op = dev.take(self.n, self.width, self.m)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], x[1], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(x[1], dy[0], dx[0], False)

    def faults(self) -> str | None:
        place = int(self.dev.download(self.op.bad)[0])
        what = f'"{self.spec.bottom[0]}" has samples 0 to {self.n - 1}'
        return f'place {place - 1} of bottom "{self.spec.bottom[1]}" is no sample; {what}' if place else None


@register
class Filter(Layer):
    """Selects the samples with a nonzero selector, the last bottom: (N, ...), …, selector (N) → (M, ...), …, a top for
    each other bottom.

    M depends on the data and is N until the first pass. When it changes, the net reshapes the layers above within the
    memory planned for N, as Caffe does. On a GPU every pass waits for the selector. Errors: a
    batch without a selected sample.
    """

    bottoms, tops = (2, None), (1, None)
    varies = requires_host = True

    def setup(self) -> None:
        self.data = len(self.spec.bottom) - 1
        if len(self.spec.top) != self.data:
            what = f"has {len(self.spec.top)} tops for {self.data} bottoms and a selector"
            raise self.outer_error(what, "top", min(self.data, len(self.spec.top)), expected=self.data)
        self.constant_bottoms = frozenset({self.data})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        *data, selector = bottoms
        self.n = math.prod(selector)
        for i, shape in enumerate((*data, selector[:1])):
            if shape[:1] != (self.n,):
                expected = (
                    f'{self.n} samples, one for each value of the selector "{self.spec.bottom[-1]}" {list(selector)}'
                )
                raise self.bottom_error(i, "does not fit", expected=expected, found=f"shape {list(shape)}")
        self.widths = [math.prod(shape[1:]) for shape in data]
        self.count = self.n
        return data

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev: Device) -> None:
        self._index = dev.zeros(self.n)
        self._operations()

    def _operations(self) -> None:
        self._rows = self._index[: self.count]
        self.ops = [self.dev.take(self.n, width, self.count) for width in self.widths]

    def forward(self, x: list, y: list) -> None:
        chosen = np.flatnonzero(self.dev.download(x[-1]))
        if len(chosen) != self.count:
            if not len(chosen):
                raise CaffeliteError(
                    f'layer "{self.name}" (Filter): bottom "{self.spec.bottom[-1]}" selects no sample of the batch'
                )
            self.count = len(chosen)
            self._operations()
            y = self.resize([(self.count, *bottom.shape[1:]) for bottom in x[:-1]])
        self.dev.upload(self._rows, chosen)
        for op, bottom, top in zip(self.ops, x, y, strict=False):
            op.forward(bottom, self._rows, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for op, top, bottom in zip(self.ops, dy, dx, strict=False):
            if bottom is None:
                continue
            if top is None:
                self.dev.fill(bottom, 0)
            else:
                op.backward(self._rows, top, bottom, False)
