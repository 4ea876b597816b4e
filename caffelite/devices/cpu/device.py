"""The CPU device: its memory, its formulas, and the operations that it builds."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl

from ...errors import CaffeliteError
from .. import Window
from ..formula import Formula, batch_moments, merged, one_by_one, two_passes
from ..traits import CPU_EAGER, cpu_traits
from . import blas, formulas, input_buffer, onednn, operations, preprocessing, primitives, recurrent, selection, windows
from .kernels import channels_last

log = logging.getLogger("caffelite")
PARTS = 64  # parts of a sum: fixed, so that results do not depend on the number of threads


class CPU:
    """Arrays are NumPy's; every operation finishes before it returns.

    dtype: float32 (default), or float64, which the tests use to check gradients. precision: bf16 multiplies bfloat16
    numbers in convolutions and large inner products, and stores images as such from convolution to convolution; all
    sums, parameters and what is computed in between are float32.
    """

    name = "cpu"
    waits = True  # an operation has finished when it returns, so that its faults can be read at no cost
    eager = CPU_EAGER  # why nothing is captured

    def __init__(self, dtype: str = "float32", precision: str = "fp32"):
        import numba

        _tell_of_compiling()
        self.dtype = np.dtype(dtype)
        self.threads = numba.get_num_threads()
        self.clock = (0, 0)  # the iteration, and which part of its batch runs: what random numbers are keyed by
        self.seed = 0
        self._workspace = np.empty(0, np.uint8)
        self.input_buffer = self.make_input_buffer()
        self._onednn = onednn.load() if dtype == "float32" else None
        if dtype == "float32" and not self._onednn:
            _tell_of_onednn()
        self.traits = traits = cpu_traits(precision, self.dtype.name, self._onednn is not None)
        self.precision, self.half = precision, traits.half
        if self.half:
            self._check_half()
        blas.address(dtype)  # loads the library whose threads are limited below
        # Kernels split work over Numba's threads; a BLAS that starts its own inside them only fights for the cores.
        threadpoolctl.threadpool_limits(1, user_api="blas")

    def _check_half(self) -> None:
        """bfloat16 takes oneDNN; on a processor without its instructions it is slower than float32, which is told."""
        if self._onednn is None:
            remedy = 'install the extra: pip install "caffelite[onednn]"'
            raise CaffeliteError("bf16 on a CPU needs oneDNN (version 3)", found="none", remedy=remedy)
        kind = self._onednn.bf16()
        if kind is None:
            raise CaffeliteError(
                "this processor cannot multiply bfloat16 numbers", expected="AVX-512, better AMX", remedy="use fp32"
            )
        if kind == "emulated":
            log.warning(
                "This processor has no bfloat16 instructions; -precision bf16 is imitated, and slower than fp32"
            )

    # memory

    def empty(self, shape, dtype=None) -> np.ndarray:
        return np.empty(shape, dtype or self.dtype)

    def zeros(self, shape, dtype=None) -> np.ndarray:
        return np.zeros(shape, dtype or self.dtype)

    def view(self, raw: np.ndarray, offset: int, shape: tuple[int, ...], dtype=None) -> np.ndarray:
        """An array over ``raw`` bytes from ``offset`` on."""
        dtype = np.dtype(dtype or self.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return raw[offset : offset + count * dtype.itemsize].view(dtype).reshape(shape)

    def upload(self, array: np.ndarray, host: np.ndarray) -> None:
        array[...] = host

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        np.copyto(target, source)

    def assign(self, source: np.ndarray, target: np.ndarray) -> None:
        """target = source, both perhaps views (slices, transposes), of different stretches of memory; source is
        broadcast."""
        np.copyto(target, source)

    def transpose(self, source: np.ndarray, target: np.ndarray) -> None:
        """target (N, B, A) = source (N, A, B) with its last axes swapped."""
        channels_last.transpose(source, target)

    def copy_into(self, part: np.ndarray, whole: np.ndarray, start: int) -> None:
        """The columns of ``whole`` (R, T) from ``start`` on become ``part`` (R, S)."""
        channels_last.copy_into(part, whole, start)

    def copy_out(self, whole: np.ndarray, start: int, part: np.ndarray) -> None:
        """part (R, S) becomes the columns of ``whole`` (R, T) from ``start`` on."""
        channels_last.copy_out(whole, start, part)

    def fill(self, array: np.ndarray, value: float) -> None:
        array.fill(value)

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """target += source, views as in ``assign``; of bfloat16 numbers whole arrays."""
        if target.dtype == np.uint16:
            return self._add_halves(source, target, target)
        np.add(target, source, out=target)

    def conversions(self):
        """``narrow(x, y)``, which rounds float32 numbers to bfloat16 ones, and ``widen(x, y)``, its way back."""
        return tuple(self.map(Formula("x", ("x",), halves=(side,))) for side in ("out", "x"))

    @functools.cached_property
    def _add_halves(self):
        return self.map(Formula("a + b", ("a", "b"), halves=("a", "b", "out")))

    @staticmethod
    def widened(array: np.ndarray) -> np.ndarray:
        """bfloat16 numbers, uint16 in memory, as float32 ones; a copy."""
        return (array.astype(np.uint32) << 16).view(np.float32)

    def run_concurrently(self, work: int, *parts: Callable[[], None]) -> None:
        """Runs what does not depend on each other."""
        for part in parts:
            part()

    def synchronize(self) -> None:
        pass

    def workspace(self, count: int, dtype=None) -> np.ndarray:
        """Scratch shared by all operations, valid within one of them; ask for it again on every run."""
        dtype = np.dtype(dtype or self.dtype)
        return self.space(count * dtype.itemsize)[: count * dtype.itemsize].view(dtype)

    def space(self, size: int) -> np.ndarray:
        """The workspace as bytes, ``size`` of them or more."""
        if self._workspace.nbytes < size:
            self._workspace = np.empty(size, np.uint8)
        return self._workspace

    def moment(self) -> float:
        """Now, for ``between``."""
        return time.perf_counter()

    def between(self, begin: float, end: float) -> float:
        """Milliseconds from one moment to another."""
        return (end - begin) * 1e3

    # what changes from pass to pass, and what does not

    def make_input_buffer(self) -> input_buffer.InputBuffer:
        return input_buffer.InputBuffer(self)

    def ring(self, rows: int, width: int = 1) -> input_buffer.Ring:
        return input_buffer.Ring(self, rows, width)

    def loss_scale(self, start: float | None) -> None:
        """What keeps gradients of 16-bit numbers from vanishing; bfloat16 ones need nothing."""

    def program(self, body, signature=tuple, gather=None):
        """``body``, to be called with keys; a GPU captures it."""
        return body

    def agreeing(self, rank: int, gather):
        """Processes have nothing to agree on here; see the GPU's."""
        return contextlib.nullcontext()

    def random_key(self, samples: int) -> tuple[int, ...]:
        """What random kernels take besides their arrays: the seed's two words, the iteration, the first of this part's
        ``samples``."""
        iteration, part = self.clock
        return self.seed & 0xFFFFFFFF, self.seed >> 32, iteration, part * samples

    # formulas

    def map(self, formula: Formula, **constants: float):
        """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)

        def kernel(over: str | None):
            return formulas.map_kernel(formula, self.dtype.name, over), ()

        return formulas.Map(formula, kernel, [-1] * len(formula.arrays + formula.scalars), -1, values)

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float):
        """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, added up in float64."""
        kernel = formulas.sum_kernel(formula, self.dtype.name)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        whole = np.empty(PARTS)

        def run(*operands, add: bool = False):
            arrays = [a.reshape(-1) for a in operands[:-1]]
            partial = whole[: max(1, min(PARTS, arrays[0].size // 1024))]
            kernel(partial, *arrays, *values)
            out, total = operands[-1].reshape(-1), partial[0] if partial.size == 1 else partial.sum()
            out[0] = scale * total + (out[0] if add else 0)

        return run

    def batch_moments(self, n: int, c: int, p: int, eps: float, keep: float):
        """``run(x, mean, scale, means, variances, count)``: see formula.batch_moments."""
        return batch_moments(self, n, c, p, eps, keep)

    def channel_map(self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float):
        """``run(*arrays, *scalars, out)``: ``map`` over (N, C, P), where the arrays named in ``channels`` have C
        elements."""
        rows, width = (n, c) if p == 1 else (n * c, p)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)

        def kernel(over: str | None):
            return formulas.channel_map_kernel(formula, self.dtype.name, tuple(channels), p == 1, over), (
                _pieces(rows, width),
                c,
            )

        return formulas.Map(
            formula, kernel, self._channel_shapes(formula, channels, rows, width), (rows, width), values
        )

    def channel_sum(
        self,
        formula: Formula,
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        **constants: float,
    ):
        """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, added up in
        float64.

        The arrays named in ``channels`` have C elements, the others N·C·P.
        """
        if c == 1:
            n, p = 1, n * p  # one long plane
        columns = p == 1
        rows, width = (n, c) if columns else (n * c, p)
        kernel = formulas.channel_sum_kernel(formula, self.dtype.name, tuple(channels), columns)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        shapes = self._channel_shapes(formula, channels, rows, width)
        parts = _parts(n) if columns else _pieces(rows, width)
        size = (parts, c) if columns else (rows, parts)

        def run(*operands, add: bool = False):
            arrays = [a.reshape(s) for a, s in zip(operands[:-1], shapes, strict=True)]
            partial = self.workspace(size[0] * size[1], np.float64).reshape(size)
            kernel(partial, *((n,) if columns else (p, c)), *arrays, *values)
            total = partial.sum(0) if columns else partial.reshape(n, c, parts).sum((0, 2))
            out = operands[-1].reshape(c)
            out[...] = scale * total + (out if add else 0)

        return run

    def channel_sums(
        self,
        formulas_: tuple[Formula, ...],
        channels,
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        **constants: float,
    ):
        """``run(*arrays, outs)``: ``channel_sum`` of several formulas, in one pass where P = 1; arrays are those of
        all, each once."""
        if p > 1:
            return one_by_one(self, formulas_, channels, n, c, p, scale, constants)
        whole = Formula(formulas_[-1].text, merged(formulas_), constants=tuple(constants))
        kernel = formulas.column_sums_kernel(formulas_, self.dtype.name, tuple(channels), tuple(constants))
        values = tuple(self.dtype.type(value) for value in constants.values())
        shapes, size = self._channel_shapes(whole, channels, n, c), (_parts(n), len(formulas_), c)

        def run(*operands):
            arrays = [a.reshape(s) for a, s in zip(operands[:-1], shapes, strict=True)]
            partial, rough = self._partial_sums(size)
            kernel(partial, rough, n, *arrays, *values)
            for out, total in zip(operands[-1], partial.sum(0), strict=True):
                out.reshape(c)[...] = scale * total

        return run

    def moments(self, n: int, c: int, p: int):
        """``run(x, mean, variance)``: the moments of each channel of x (N, C, P), of bfloat16 numbers perhaps where P =
        1."""
        if p > 1:
            return two_passes(self, n, c, p)
        size = _parts(n), 2, c

        def run(x, mean, variance):
            x, (partial, rough) = x.reshape(n, c), self._partial_sums(size)
            channels_last.moments(x, partial, rough)
            channels_last.join_moments(x, partial, mean, variance)

        return run

    def _partial_sums(self, size: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Workspace for sums of rows: in float64, and in the device's type."""
        count = math.prod(size)
        space = self.space(count * (8 + self.dtype.itemsize))
        return self.view(space, 0, size, np.float64), self.view(space, count * 8, size)

    @staticmethod
    def _channel_shapes(formula: Formula, channels, rows: int, width: int) -> list:
        return [-1 if a in channels else (rows, width) for a in formula.arrays] + [-1] * len(formula.scalars)

    def updater(self, formula: Formula, chunks: np.ndarray, lr_mult: np.ndarray, decay: np.ndarray, **constants: float):
        """``run(numbers, scale, *arrays)``: an update rule over flat buffers.

        chunks (K, 2) are element ranges, lr_mult and decay (K) theirs. numbers: the rate, then the formula's constants
        that are not given here, in its order; scale (1): what g is multiplied by. Both are arrays of the device.
        """
        kernel = formulas.update_kernel(formula, self.dtype.name)
        start, stop = (np.ascontiguousarray(chunks[:, i], np.int64) for i in (0, 1))
        tables = [np.ascontiguousarray(t, self.dtype) for t in (lr_mult, decay)]

        others = [n for n in formula.constants if n not in ("rate", "decay")]
        given = {n: self.dtype.type(constants[n]) for n in others if n in constants}
        fixed = tuple(given.values()) if len(given) == len(others) else None

        def run(numbers: np.ndarray, scale: np.ndarray, *arrays):
            left = iter(numbers[1:])
            values = [given[n] if n in given else next(left) for n in others] if fixed is None else fixed
            kernel(start, stop, *tables, numbers[0], scale[0], *arrays, *values)

        return run

    # operations

    def inner_product(self, m: int, k: int, n: int, transpose: bool = False, half: bool = False):
        if self._onednn:
            return primitives.InnerProduct(self, self._onednn, m, k, n, transpose, half)
        return operations.InnerProduct(self, m, k, n, transpose)

    def convolution(
        self,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        groups: int = 1,
        channels_last: bool = False,
        half: bool = False,
        name: str = "",
    ):
        if channels_last:
            return primitives.Convolution(self, self._onednn, x, y, window, groups, half)
        return operations.Convolution(self, x, y, window, groups)

    def pooling(self, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window, stream: int | None = None):
        return windows.Pooling(self, method, x, y, window, stream)

    def channels_last_pooling(
        self, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window, half: bool = False
    ):
        return primitives.Pooling(self, self._onednn, method, x, y, window, half)

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        kind = windows.ChannelsLastLRN if p == 1 else windows.LRN
        return kind(self, n, c, p, size, alpha, beta, k)

    def im2col(self, x: tuple[int, ...], window: Window):
        return windows.Im2col(x, window.outputs(x[2:]), window)

    def take(self, rows: int, width: int, count: int):
        return selection.Take(rows, width, count)

    def top_k(self, n: int, c: int, p: int, k: int):
        return selection.TopK(n, c, p, k)

    def lstm(self, t: int, n: int, d: int, half: bool = False):
        return recurrent.LSTM(self, t, n, d, half)

    def lstm_unit(self, n: int, d: int):
        return recurrent.LSTMUnit(self, n, d)

    def softmax(self, n: int, c: int, p: int):
        return operations.Softmax(n, c, p)

    def softmax_loss(self, n: int, c: int, p: int, ignore: int | None, divisor: float | None):
        return operations.SoftmaxLoss(self, n, c, p, ignore, divisor)

    def accuracy(self, n: int, c: int, p: int, top_k: int, ignore: int | None):
        return operations.Accuracy(n, c, p, top_k, ignore)

    def dropout(self, n: int, d: int, ratio: float, stream: int):
        return operations.Dropout(self, n, d, ratio, stream)

    def preprocess(self, out: tuple[int, ...], mean: np.ndarray | None, scale: float):
        return preprocessing.Preprocess(out, mean, scale)


def _parts(rows: int) -> int:
    """Into how many parts rows are parted whose columns are added up: as many sums of all columns are written and read
    besides."""
    return max(1, min(PARTS, rows // 96))


def _pieces(rows: int, width: int) -> int:
    """How many pieces a row is cut into: enough to share few rows among threads, and the same for any number of
    them."""
    return max(1, min(PARTS // max(1, rows), width // 1024))


@functools.cache
def _tell_of_onednn() -> None:
    if os.environ.get("CAFFELITE_ONEDNN") != "0":
        log.info(
            'oneDNN was not found: convolutions run on BLAS, more slowly; pip install "caffelite[onednn]" brings it'
        )


@functools.cache
def _tell_of_compiling() -> None:
    """Says once that kernels are being compiled, which makes the first run on a machine slow to start."""
    from numba.core import event

    class Told(event.Listener):
        said = False

        def on_start(self, compiling) -> None:
            if not self.said:
                self.said = True
                log.info("Compiling kernels for this processor; later runs start without this")

        def on_end(self, compiled) -> None:
            pass

    event.register("numba:compile", Told())
