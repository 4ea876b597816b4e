"""Convolutions of nets that only test: weights are folded and packed when they change, not in each pass."""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import algorithms, ops
from ..algorithms import COLUMNS, DEPTHWISE, DIRECT, LANES, PANEL, WINOGRAD, rounded
from ..formula import Formula
from .depthwise import DepthwiseConvolution
from .formula_kernels import FormulaKernels
from .kernels import columns, program
from .onednn_operations import Convolution
from .registry import implements
from .winograd import WinogradConvolution, panels

BLOCK_BYTES = 3 << 17  # of the columns and products of a block, which stay in a core's second-level cache


class ColumnsConvolution:
    """In float32, as a matrix product of columns. What is not positive is multiplied by slopes (M)."""

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        self._device, (n, c, h, w), (_, m, high, wide), window = device, op.x, op.y, op.window
        self._x, self._y, self._outputs = (n, h, w, c), (n * high * wide, m), (high, wide)
        self._window = (*window.kernel, *window.stride, *window.pad, *window.dilation)
        self._vectors, self._depth = rounded(m, LANES) // LANES, c * window.kernel[0] * window.kernel[1]
        self._starts = panels(self._vectors * LANES)
        rows = columns.ROWS[max(1, min(PANEL, self._vectors))]
        most = BLOCK_BYTES // (4 * self._depth) // rows * rows
        share = rounded(-(-self._y[0] // device.threads), rows)
        self._block = max(rows, min(most, share))
        self._seen: tuple[Any, ...] = (None,) * 4
        self._kernel: Callable[..., None]

    def prepare(self, w: np.ndarray, b: np.ndarray, slopes: np.ndarray) -> None:
        """Packs weights of Caffe's order. b, slopes (M)."""
        width = self._vectors * LANES
        self._packed, self._after = np.empty(self._depth * width, np.float32), np.zeros((2, width), np.float32)
        columns.pack(w, self._starts, self._packed)
        self._after[0, : b.size], self._after[1, : b.size] = b, slopes
        self._seen = (None,) * 4

    def run(self, x, y) -> None:
        threads = self._device.active_threads
        count = threads * self._block * self._depth
        space = self._device.space(4 * (count + threads * PANEL * LANES))
        arguments = x, y, space, threads
        if any(a is not b for a, b in zip(arguments, self._seen, strict=True)):
            parts = (
                self._device.view(space, 0, (threads, self._block, self._depth), np.float32),
                self._device.view(space, 4 * count, (threads, PANEL * LANES), np.float32),
            )
            arrays = x.reshape(self._x), self._packed, self._starts, *self._after, y.reshape(self._y)
            self._arguments = *arrays, self._outputs, self._window, self._block, *parts
            self._kernel, self._seen = columns.convolve_alone if threads == 1 else columns.convolve, arguments
        self._kernel(*self._arguments)

    @property
    def step_bytes(self) -> int:
        """Bytes of the workspace of a step."""
        return 4 * (self._block * self._depth + PANEL * LANES)

    def step(self, x, y, space: int) -> list[int]:
        """The numbers of a step of kernels/program.py. space: the address of the workspace."""
        arrays = x, self._packed, self._starts, *self._after, y
        sizes = *self._x, *self._outputs, self._y[1], self._starts.size - 1, *self._window
        return program.fields(program.COLUMNS, (*(a.ctypes.data for a in arrays), self._block, space), sizes)


Algorithm = Convolution | WinogradConvolution | DepthwiseConvolution | ColumnsConvolution


@implements(ops.PreparedConvolution)
class PreparedConvolution:
    """Columns, or Winograd where it is measured to be faster; kernels of our own for depthwise ones; else oneDNN, alone
    where nothing is measured. ``taken``: the algorithm by pass, once it has run."""

    def __init__(self, device: FormulaKernels, op: ops.PreparedConvolution):
        self._device, self._choices, self._op = device, (choices := device.algorithms), (conv := op.convolution)
        x, y, window, groups, half = geometry = conv.x, conv.y, conv.window, conv.groups, conv.half
        names = algorithms.candidates(*geometry) if choices else [DIRECT]
        self._names = [name for name in names if name == DEPTHWISE or name in WINOGRAD and not half]
        if choices and groups == 1 and not half:
            self._names.insert(0, COLUMNS)
        if conv.algorithm:
            self._names = [name for name in self._names if name == conv.algorithm]
        elif not algorithms.measured(x, y, window, groups):
            self._names = [name for name in self._names[:1] if name not in WINOGRAD]
        elif DEPTHWISE not in self._names:
            self._names.append(DIRECT)
        sizes = ["x".join(map(str, shape)) for shape in (x, y, window.kernel, window.pad, window.stride)]
        self._problem = "test convolution of {} to {}, kernel {}, pad {}, stride {}".format(*sizes)
        self._problem += f", dilation {window.dilation}" * (window.dilation != (1, 1))
        self._problem += f", {groups} groups" * (groups > 1)
        self.taken: dict[str, str] = {}
        self._run: Callable[..., None] | None = None
        self._chosen: Algorithm | None = None
        self._packed: np.ndarray | None = None

    @functools.cached_property
    def _apply_slopes(self) -> Callable[..., None]:
        y = self._op.y
        formula = Formula("where(y > 0, y, s * y)", ("y", "s"), halves=("y", "out") * self._op.half)
        return self._device.channel_map(formula, ("s",), y[0] * y[2] * y[3], y[1], 1)

    @functools.cached_property
    def _direct(self) -> Convolution:
        assert self._device.library, "traits say that nothing is prepared"
        return Convolution(self._device, self._device.library, self._op)

    def prepare(self, w: np.ndarray, b: np.ndarray, slopes: np.ndarray) -> None:
        self._w, self._b, self._slopes = w, b, slopes
        self._bends, self._uniform = bool((slopes != 1).any()), bool((slopes == slopes[0]).all())
        self._run = None

    def run(self, x, y) -> None:
        if self._run is None:
            self._run = self._choose(x, y)
        self._run(x, y)

    @property
    def step_bytes(self) -> int:
        """Bytes of the workspace of a step, once it has run; -1 where it cannot be a step of a program."""
        if isinstance(self._chosen, DepthwiseConvolution):
            return self._chosen.step_bytes if self._uniform and not self._op.half else -1
        return self._chosen.step_bytes if isinstance(self._chosen, ColumnsConvolution) else -1

    def step(self, x, y, space: int) -> list[int]:
        """The numbers of a step of kernels/program.py. space: the address of the workspace."""
        if isinstance(self._chosen, ColumnsConvolution):
            return self._chosen.step(x, y, space)
        assert isinstance(self._chosen, DepthwiseConvolution)
        return self._chosen.step(x, self._packed, self._b, float(self._slopes[0]), y, space)

    def _choose(self, x, y) -> Callable[..., None]:
        runs = {name: self._made(name) for name in self._names or [DIRECT]}
        name = next(iter(runs))
        if len(runs) > 1:
            assert self._choices is not None
            name = self._choices.choose(self._problem, {each: partial(run, x, y) for each, (*_, run) in runs.items()})
        self.taken["forward"] = name
        self._chosen, self._packed, run = runs[name]
        return run

    def _made(self, name: str) -> tuple[Algorithm, np.ndarray | None, Callable[..., None]]:
        """An algorithm's operation, its packed weights, and a function of (x, y)."""
        slope = float(self._slopes[0]) if self._bends else None
        if name == COLUMNS:
            product = ColumnsConvolution(self._device, self._op)
            product.prepare(self._w, self._b, self._slopes)
            return product, None, product.run
        if name == DIRECT:
            return self._direct, None, partial(self._with_slopes, self._run_direct, slope)
        op: DepthwiseConvolution | WinogradConvolution
        if name == DEPTHWISE:
            op = DepthwiseConvolution(self._device, self._op)
        else:
            op = WinogradConvolution(self._device, self._op, WINOGRAD[name])
        packed = op.prepare(self._w)
        return op, packed, partial(self._with_slopes, partial(op.run_prepared, packed), slope)

    def _run_direct(self, x, b, y, slope: float | None) -> None:
        self._direct.forward(x, self._w, b, y, slope)

    def _with_slopes(self, run: Callable[..., None], slope: float | None, x, y) -> None:
        """run: of a convolution that applies one slope to all channels."""
        run(x, self._b, y, slope if self._uniform else None)
        if not self._uniform:
            self._apply_slopes(y, self._slopes, y)
