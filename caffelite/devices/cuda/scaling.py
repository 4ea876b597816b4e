"""Dynamic loss scaling: keeps fp16 gradients within the range of fp16 (Micikevicius et al. 2018)."""

import numpy as np

from ..formula import Formula
from ..types import Array
from .formula_kernels import FormulaKernels


class LossScale:
    """The factor that the loss, and with it every gradient, is multiplied by. It stays on the device, so that it can be
    captured.

    An iteration's gradients are multiplied by ``factor``. Once they are complete (summed over processes, too),
    ``check`` or ``check_square`` tests whether they are finite: then the update takes them times ``inverse`` (1 / that
    factor), else ``skip`` is 1 and nothing may be updated. The next factor: half after a skip, twice after ``PATIENCE``
    good iterations in a row. Three arrays of one number each.

    start: the first factor.
    """

    START, LEAST, MOST, PATIENCE = 2.0**10, 1.0, 2.0**24, 2000

    def __init__(self, device: FormulaKernels, start: float = START):
        self._device, self._state = device, device.zeros(4)
        self.factor, self.inverse, self.skip = (self._state[i : i + 1] for i in (0, 2, 3))
        self._square, self._sum = device.zeros(1), device.sum(Formula("g * g", ("g",)))
        self._adapt = device.kernel("scaling", "settle_scale", 1, float(self.PATIENCE), self.LEAST, self.MOST)
        self.load(start)

    def check(self, gradients: Array) -> None:
        """Tests the gradients of all parameters, one flat array."""
        self._sum(gradients, self._square)
        self.check_square(self._square)

    def check_square(self, square: Array) -> None:
        """The same from the sum of their squares."""
        self._adapt(square, self._state)

    def load(self, factor: float, good: int = 0) -> None:
        """Continues from a factor and a number of good iterations."""
        self._device.upload(self._state, np.array([factor, good, 1 / factor, 0]))

    def state(self) -> tuple[float, int]:
        """The factor, and how many good iterations in a row there were: what ``load`` takes. Waits for the device."""
        factor, good = self._device.download(self._state)[:2]
        return float(factor), int(good)
