"""The GPU's operations that select rows of a table or the largest values."""

from __future__ import annotations

from .formula_kernels import FormulaKernels
from .operations import Labels, team


class Take(Labels):
    """See interfaces.Take. index has the device's dtype; sums of rows are in their order."""

    def __init__(self, device: FormulaKernels, rows: int, width: int, count: int):
        super().__init__(device)
        self._forward = device.kernel("selection", "take_forward", count * width, rows, width, count)
        self._backward = device.kernel("selection", "take_backward", rows * 256, rows, width, count)

    def forward(self, table, index, out) -> None:
        self._forward(table, index, out, self._first, self._come, self.bad)

    def backward(self, index, dout, dtable, add: bool = False) -> None:
        self._backward(index, dout, dtable, add)


class TopK:
    """See interfaces.TopK."""

    def __init__(self, device: FormulaKernels, n: int, c: int, p: int, k: int):
        self._forward = device.kernel("selection", "top_k", n * p * team(p), k, team(p), n, c, p)

    def forward(self, x, values, places) -> None:
        self._forward(x, values, places)


class Distances:
    """See interfaces.Distances."""

    def __init__(self, device: FormulaKernels, m: int, n: int, k: int, squared: bool):
        self._forward = device.kernel("selection", "distances", m * n, squared, m, n, k)
        backward = "selection", "distances_backward"
        self._x = device.kernel(*backward, m * k, squared, n, 1, m, n, k)
        self._w = device.kernel(*backward, n * k, squared, 1, n, n, m, k)

    def forward(self, x, w, y) -> None:
        self._forward(x, w, y)

    def backward_x(self, x, w, dy, dx) -> None:
        self._x(x, w, dy, dx, False)

    def backward_w(self, x, w, dy, dw, add: bool = False) -> None:
        self._w(w, x, dy, dw, add)
