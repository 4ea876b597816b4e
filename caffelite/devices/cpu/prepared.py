"""Convolutions of nets that only test: weights are folded and packed when they change, not in each pass."""

import functools
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .. import algorithms, ops
from ..algorithms import COLUMNS, DEPTHWISE, DIRECT, LANES, PANEL, WINOGRAD, rounded
from ..formula import Formula
from .depthwise import DepthwiseConvolution
from .formula_kernels import FormulaKernels
from .kernels import columns
from .onednn_operations import Convolution
from .registry import implements
from .winograd import WinogradConvolution, panels

FEW_CHANNELS, FULL = 16, 0.9  # of an image whose columns are not copied, and of the tiles of its rows
BLOCK_BYTES = 7 << 16  # of the columns and products of a block, which stay in a core's second-level cache


_packed: WeakValueDictionary[tuple, np.ndarray] = WeakValueDictionary()


def shared(packed: np.ndarray) -> np.ndarray:
    """Packed weights that nobody writes any more: those of another net with the same numbers, as one for another
    number of samples, else these."""
    return _packed.setdefault((packed.shape, hashlib.sha256(packed.data).digest()), packed)


class ColumnsConvolution:
    """In float32, as a matrix product of columns. What is not positive is multiplied by slopes (M).

    ``packed``, ``starts``, ``after`` (2, M in whole vectors): weights, the first vector of each panel, bias and slopes.
    ``by_rows``: see kernels/columns.py. ``rows``: pixels of a tile; ``most``: of a block, whose columns of ``depth``
    numbers stay in a core's cache.
    """

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        self._device, (n, c, h, w), (_, m, high, wide), window = device, op.x, op.y, op.window
        self._x, self._y, self._outputs = (n, h, w, c), (n * high * wide, m), (high, wide)
        self.window = (*window.kernel, *window.stride, *window.pad, *window.dilation)
        self._vectors, self.depth = rounded(m, LANES) // LANES, c * window.kernel[0] * window.kernel[1]
        self.starts = panels(self._vectors * LANES)
        self.rows = columns.ROWS[max(1, min(PANEL, self._vectors))]
        self.by_rows = c <= FEW_CHANNELS and window.dilation == (1, 1) and wide >= FULL * rounded(wide, self.rows)
        numbers = window.kernel[0] * (w + 2 * window.pad[1]) * c if self.by_rows else 0
        self._least = -(-numbers // self.depth)
        self.most = max(self.rows, BLOCK_BYTES // (4 * self.depth) // self.rows * self.rows)
        blocks = -(-self._y[0] // self.most)
        blocks = rounded(blocks, device.threads) if self._y[0] >= device.threads * self.rows else blocks
        self._block = rounded(-(-self._y[0] // blocks), self.rows)
        self._seen: tuple[Any, ...] = (None,) * 4

    def space(self, block: int) -> int:
        """The rows of ``depth`` numbers that a task needs for a block of so many pixels."""
        return max(block, self._least)

    def prepare(self, w: np.ndarray, b: np.ndarray, slopes: np.ndarray) -> None:
        """Packs weights of Caffe's order. b, slopes (M)."""
        width = self._vectors * LANES
        packed = self._device.empty(self.depth * width, np.float32)
        self.after = self._device.zeros((2, width), np.float32)
        columns.pack(w, self.starts, packed)
        self.packed = shared(packed)
        self.after[0, : b.size], self.after[1, : b.size] = b, slopes
        self._seen = (None,) * 4

    def run(self, x, y) -> None:
        threads = self._device.active_threads
        rows = self.space(self._block)
        count = threads * rows * self.depth
        space = self._device.space(4 * (count + threads * PANEL * LANES))
        arguments = x, y, space, threads
        if any(a is not b for a, b in zip(arguments, self._seen, strict=True)):
            spaces = (
                self._device.view(space, 0, (threads, rows, self.depth), np.float32),
                self._device.view(space, 4 * count, (threads, PANEL * LANES), np.float32),
            )
            arrays = x.reshape(self._x), self.packed, self.starts, *self.after, y.reshape(self._y)
            self._arguments = *arrays, self._outputs, self.window, self.by_rows, self._block, *spaces
            self._seen = arguments
        columns.convolve(*self._arguments)


Algorithm = Convolution | WinogradConvolution | DepthwiseConvolution | ColumnsConvolution


@implements(ops.PreparedConvolution)
class PreparedConvolution:
    """Columns, or Winograd where it is measured to be faster; kernels of our own for depthwise ones; else oneDNN, alone
    where nothing is measured. ``taken``: the algorithm by pass, ``chosen``: what runs it, ``packed``: the weights as it
    reads them, once it has run."""

    def __init__(self, device: FormulaKernels, op: ops.PreparedConvolution):
        self._device, self._choices, self.convolution = device, (choices := device.algorithms), (conv := op.convolution)
        x, y, window, groups, half = geometry = conv.x, conv.y, conv.window, conv.groups, conv.half
        names = algorithms.candidates(*geometry) if choices else [DIRECT]
        self._names = [name for name in names if name == DEPTHWISE or name in WINOGRAD and not half]
        if choices and groups == 1 and not half:
            self._names.insert(0, COLUMNS)
        if conv.algorithm:
            self._names = [name for name in self._names if name == conv.algorithm]
        elif not algorithms.measured(x, y, window, groups, tests=True):
            self._names = [name for name in self._names[:1] if name not in WINOGRAD]
        elif DEPTHWISE not in self._names:
            self._names.append(DIRECT)
        sizes = ["x".join(map(str, shape)) for shape in (x, y, window.kernel, window.pad, window.stride)]
        self._problem = "test convolution of {} to {}, kernel {}, pad {}, stride {}".format(*sizes)
        self._problem += f", dilation {window.dilation}" * (window.dilation != (1, 1))
        self._problem += f", {groups} groups" * (groups > 1)
        self.taken: dict[str, str] = {}
        self._run: Callable[..., None] | None = None
        self.chosen: Algorithm | None = None
        self.packed: np.ndarray = np.empty(0, np.float32)

    @functools.cached_property
    def _apply_slopes(self) -> Callable[..., None]:
        y = self.convolution.y
        formula = Formula("where(y > 0, y, s * y)", ("y", "s"), halves=("y", "out") * self.convolution.half)
        return self._device.channel_map(formula, ("s",), y[0] * y[2] * y[3], y[1], 1)

    @functools.cached_property
    def _direct(self) -> Convolution:
        assert self._device.library, "traits say that nothing is prepared"
        return Convolution(self._device, self._device.library, self.convolution)

    def prepare(self, w: np.ndarray, b: np.ndarray, slopes: np.ndarray) -> None:
        self._w, self._b, self._slopes = w, b, slopes
        self._bends, self._uniform = bool((slopes != 1).any()), bool((slopes == slopes[0]).all())
        self._run = None

    def run(self, x, y) -> None:
        if self._run is None:
            self._run = self._choose(x, y)
        self._run(x, y)

    def is_step(self) -> bool:
        """Whether it can be a step of program.py, once it has run: of float32, by a kernel of our own, one slope for
        all channels."""
        if self.convolution.half or self.convolution.groups > 1 and not isinstance(self.chosen, DepthwiseConvolution):
            return False
        own = isinstance(self.chosen, DepthwiseConvolution | WinogradConvolution) and self._uniform
        return own or isinstance(self.chosen, ColumnsConvolution)

    @property
    def packed_bytes(self) -> int:
        """Of the weights, once it has run."""
        return (self.chosen if isinstance(self.chosen, ColumnsConvolution) else self).packed.nbytes

    @property
    def bias(self) -> np.ndarray:
        return self._b

    @property
    def slope(self) -> float:
        """The slope of all channels."""
        return float(self._slopes[0])

    def _choose(self, x, y) -> Callable[..., None]:
        runs = {name: self._made(name) for name in self._names or [DIRECT]}
        name = next(iter(runs))
        if len(runs) > 1:
            assert self._choices is not None
            name = self._choices.choose(self._problem, {each: partial(run, x, y) for each, (*_, run) in runs.items()})
        self.taken["forward"] = name
        self.chosen, packed, run = runs[name]
        if packed is not None:
            self.packed = packed
        return run

    def _made(self, name: str) -> tuple[Algorithm, np.ndarray | None, Callable[..., None]]:
        """An algorithm's operation, its packed weights, and a function of (x, y)."""
        slope = float(self._slopes[0]) if self._bends else None
        if name == COLUMNS:
            product = ColumnsConvolution(self._device, self.convolution)
            product.prepare(self._w, self._b, self._slopes)
            return product, None, product.run
        if name == DIRECT:
            return self._direct, None, partial(self._with_slopes, self._run_direct, slope)
        op: DepthwiseConvolution | WinogradConvolution
        if name == DEPTHWISE:
            op = DepthwiseConvolution(self._device, self.convolution)
        else:
            op = WinogradConvolution(self._device, self.convolution, WINOGRAD[name])
        packed = shared(op.prepare(self._w))
        return op, packed, partial(self._with_slopes, partial(op.run_prepared, packed), slope)

    def _run_direct(self, x, b, y, slope: float | None) -> None:
        self._direct.forward(x, self._w, b, y, slope)

    def _with_slopes(self, run: Callable[..., None], slope: float | None, x, y) -> None:
        """run: of a convolution that applies one slope to all channels."""
        run(x, self._b, y, slope if self._uniform else None)
        if not self._uniform:
            self._apply_slopes(y, self._slopes, y)
