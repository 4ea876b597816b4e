"""A convolution of channels_last images that takes the fastest algorithm for each of its passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .. import algorithms, ops
from ..algorithms import DEPTHWISE, DIRECT, EXACT_TILE, PRODUCT, WINOGRAD
from . import ahead, operations
from .choices import CpuChoices
from .formula_kernels import FormulaKernels
from .onednn_operations import Convolution, InnerProduct
from .registry import implements
from .winograd import WidenedWinogradConvolution, WinogradConvolution

if TYPE_CHECKING:
    from .depthwise import DepthwiseConvolution

    Algorithm = Convolution | InnerProduct | WinogradConvolution | DepthwiseConvolution
Run = Callable[[], None]
FORWARD, DATA, WEIGHTS = "forward", "data gradient", "weight gradient"


class MeasuredConvolution:
    """By the fastest of several algorithms for each pass.

    by_name: the direct one first. fixed: one algorithm for all passes. ordered: the forward pass is
    direct where none is fixed. ``taken``: the algorithm of each pass that has run.
    """

    def __init__(
        self, choices: CpuChoices, by_name: dict[str, Algorithm], problem: str, fixed: str | None, ordered: bool
    ):
        self._choices, self._all, self._problem, self._fixed = choices, by_name, problem, fixed
        # Those whose weight gradients have small rounding errors.
        self._exact = {name: op for name, op in by_name.items() if WINOGRAD.get(name, EXACT_TILE) == EXACT_TILE}
        self._ordered = ordered and not fixed
        self.taken: dict[str, str] = {}

    def _algorithm(self, pass_name: str, runs: Callable[[], dict[str, Run]]) -> str:
        if pass_name not in self.taken:
            fixed = self._fixed
            if fixed and pass_name == WEIGHTS and fixed not in self._exact:
                fixed = DIRECT
            self.taken[pass_name] = fixed or self._choices.choose(f"{self._problem}, {pass_name}", runs())
        return self.taken[pass_name]

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        def runs() -> dict[str, Run]:
            return {name: partial(op.forward, x, w, b, y, slope) for name, op in self._all.items()}

        if self._ordered:
            self.taken[FORWARD] = DIRECT
        self._all[self._algorithm(FORWARD, runs)].forward(x, w, b, y, slope)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        def data_runs() -> dict[str, Run]:
            return {name: partial(self._data_gradient, op, x, w, dy, dx) for name, op in self._all.items()}

        def weight_runs() -> dict[str, Run]:
            trial, bias = np.empty_like(dw), None if db is None else np.empty_like(db)
            return {name: partial(self._gradients, op, x, w, dy, trial, bias) for name, op in self._exact.items()}

        weights = DIRECT if dw is None else self._algorithm(WEIGHTS, weight_runs)
        if dw is not None or db is not None:
            self._gradients(self._all[weights], x, w, dy, dw, db, add_w, add_b)
        if dx is not None:
            self._data_gradient(self._all[self._algorithm(DATA, data_runs)], x, w, dy, dx)

    @staticmethod
    def _data_gradient(op: Algorithm, x, w, dy, dx) -> None:
        if isinstance(op, Convolution | InnerProduct):
            op.backward(x, w, dy, dx, None, None)
        else:
            op.data_gradient(dy, w, dx)

    def _gradients(self, op: Algorithm, x, w, dy, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        if isinstance(op, Convolution | InnerProduct):
            op.backward(x, w, dy, None, dw, db, add_w, add_b)
        else:
            op.weight_gradient(x, dy, dw, add_w)
            if db is not None:
                self._bias_gradient.backward(x, w, dy, None, None, db, False, add_b)

    @property
    def _bias_gradient(self) -> Convolution:
        direct = self._all[DIRECT]
        assert isinstance(direct, Convolution)
        return direct


@implements(ops.Convolution)
def build(device: FormulaKernels, op: ops.Convolution) -> ops.BuiltConvolution:
    return channels_last(device, op) if op.channels_last else operations.Convolution(device, op)


def channels_last(device: FormulaKernels, op: ops.Convolution) -> Convolution | MeasuredConvolution:
    """By the algorithm that ``op`` names where that can be taken; else by the fastest, where there is work enough that
    this matters."""
    library, choices, algorithm = device.library, device.algorithms, op.algorithm
    assert library, "traits say that there is no channels_last"
    direct = Convolution(device, library, op)
    x, y, window, groups, half = geometry = op.x, op.y, op.window, op.groups, op.half
    names = algorithms.candidates(*geometry)
    little = not algorithms.measured(x, y, window, groups)
    if PRODUCT in names and y[2:] == (1, 1):
        algorithm = algorithm or PRODUCT  # a direct one reorders all weights for one pixel
    if algorithm:
        names = [name for name in names if name in (DIRECT, algorithm)]
    if choices is None or len(names) == 1 or (little and not algorithm):
        return direct
    by_name: dict[str, Algorithm] = {DIRECT: direct}
    tiled = [name for name in names if name in WINOGRAD]
    if tiled:
        ahead.begin(device, window.kernel[0])
    winograd = WidenedWinogradConvolution if half else WinogradConvolution
    by_name |= {name: winograd(device, op, WINOGRAD[name]) for name in tiled}
    if PRODUCT in names:
        by_name[PRODUCT] = InnerProduct(device, library, ops.InnerProduct(x[0] * x[2] * x[3], x[1], y[1]))
    if DEPTHWISE in names:
        from .depthwise import DepthwiseConvolution

        by_name[DEPTHWISE] = DepthwiseConvolution(device, op)
    sizes = ["x".join(map(str, shape)) for shape in (x, y, window.kernel, window.pad, window.stride)]
    problem = "convolution of {} to {}, kernel {}, pad {}".format(*sizes) + f", {groups} groups" * (groups > 1)
    if DEPTHWISE in names:
        problem = "depthwise convolution of {} to {}, kernel {}, pad {}, stride {}".format(*sizes)
    problem += ", bfloat16" * half
    return MeasuredConvolution(choices, by_name, problem, algorithm, algorithms.keeps_order(x, y, window, groups))
