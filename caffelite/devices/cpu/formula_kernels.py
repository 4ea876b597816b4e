"""The CPU's compiled formulas, applied to arrays: element by element, and summed."""

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..dtypes import BFLOAT16
from ..formula import Formula, batch_moments, merged, one_by_one, two_passes, unbias
from ..types import Kernel
from . import formulas, interpreted
from .choices import Choices
from .kernels import channels_last, few_rows
from .memory import Memory
from .onednn import Library

SUMMED = 4  # arrays that a kernel adds up at once
JOINED = 1024  # numbers of the rows that are taken as one
CHUNKS = 64  # of a sum: fixed, so that results do not depend on the number of threads


class FormulaKernels(Memory):
    """Builds functions that apply a formula to arrays, and adds arrays. library: oneDNN, where the traits say
    ``channels_last``; algorithms: where they are measured."""

    library: Library | None
    algorithms: Choices | None

    @property
    def _formulas(self) -> ModuleType:
        """What evaluates formulas: compiled loops, or NumPy in float64."""
        return interpreted if self.dtype == np.float64 else formulas

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """target += source; views as in ``assign``, but bfloat16 arrays are contiguous."""
        if target.dtype == BFLOAT16:
            self._add_bfloat16(np.ascontiguousarray(source), target, target)
        else:
            np.add(target, source, out=target)

    def conversions(self) -> tuple[Kernel, Kernel]:
        """``to_half(x, y)`` rounds float32 numbers to bfloat16, ``to_float(x, y)`` converts them back."""
        to_half, to_float = (self.map(Formula("x", ("x",), halves=(side,))) for side in ("out", "x"))
        return to_half, to_float

    @functools.cached_property
    def _add_bfloat16(self) -> Kernel:
        return self.map(Formula("a + b", ("a", "b"), halves=("a", "b", "out")))

    def copy_out(self, source: np.ndarray, start: int, target: np.ndarray, more: Sequence[np.ndarray] = ()) -> None:
        """target = source[:, start : start + S] + the same columns of the arrays ``more``."""
        arrays = (source, *more)
        if len(arrays) > 1 and target.dtype != BFLOAT16:
            arguments = (*arrays[:SUMMED], *[source] * (SUMMED - len(arrays)))
            channels_last.sum_columns(*arguments, len(arrays[:SUMMED]), start, target)
            more = arrays[SUMMED:]
        else:
            channels_last.copy_out(source, start, target)
        for other in more:
            self.add(other[:, start : start + target.shape[1]], target)

    def map(self, formula: Formula, **constants: float) -> Kernel:
        """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)

        def kernel(over: str | None):
            return self._formulas.map_kernel(formula, self.dtype.name, over), ()

        return formulas.Map(formula, kernel, [-1] * len(formula.arrays + formula.scalars), -1, values)

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float) -> Kernel:
        """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, summed in float64."""
        kernel = self._formulas.sum_kernel(formula, self.dtype.name)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        whole = np.empty(CHUNKS)

        def run(*operands, add: bool = False):
            arrays = [a.reshape(-1) for a in operands[:-1]]
            partial = whole[: max(1, min(CHUNKS, arrays[0].size // 1024))]
            kernel(partial, *arrays, *values)
            out, total = operands[-1].reshape(-1), partial[0] if partial.size == 1 else partial.sum()
            out[0] = scale * total + (out[0] if add else 0)

        return run

    def batch_moments(self, n: int, c: int, p: int, eps: float, keep: float) -> Kernel:
        """``run(x, mean, scale, means, variances, count)``: see formula.batch_moments."""
        if p > 1:
            return batch_moments(self, n, c, p, eps, keep)
        moments, variance = self.moments(n, c, p), self.zeros(c)
        factors = tuple(self.dtype.type(value) for value in (eps, keep, unbias(n)))

        def run(x, mean, scale, means, variances, count):
            moments(x, mean, variance)
            channels_last.running_moments(mean, variance, *factors, scale, means, variances, count)

        return run

    def channel_map(
        self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float
    ) -> Kernel:
        """``run(*arrays, *scalars, out)``: ``map`` over (N, C, P), where the arrays named in ``channels`` have C
        elements."""
        joined = _joined_rows(n, c) if p == 1 else 1
        rows, width = (n // joined, c * joined) if p == 1 else (n * c, p)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)

        def kernel(over: str | None):
            return self._formulas.channel_map_kernel(formula, self.dtype.name, tuple(channels), p == 1, over), (
                _pieces(rows, width),
                c,
            )

        shapes = self._channel_shapes(formula, channels, rows, width)
        mapped = formulas.Map(formula, kernel, shapes, (rows, width), values)
        return self._repeating(mapped, formula.arrays, channels, joined, c)

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
    ) -> Kernel:
        """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, added up in
        float64.

        The arrays named in ``channels`` have C elements, the others N·C·P.
        """
        if c == 1:
            n, p = 1, n * p  # one long plane
        columns = p == 1
        rows, width = (n, c) if columns else (n * c, p)
        kernel = self._formulas.channel_sum_kernel(formula, self.dtype.name, tuple(channels), columns)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        shapes = self._channel_shapes(formula, channels, rows, width)
        chunks = _chunks(n) if columns else _pieces(rows, width)
        size = (chunks, c) if columns else (rows, chunks)

        def run(*operands, add: bool = False):
            arrays = [a.reshape(s) for a, s in zip(operands[:-1], shapes, strict=True)]
            partial = self.workspace(size[0] * size[1], np.float64).reshape(size)
            kernel(partial, *((n,) if columns else (p, c)), *arrays, *values)
            total = partial.sum(0) if columns else partial.reshape(n, c, chunks).sum((0, 2))
            out = operands[-1].reshape(c)
            out[...] = scale * total + (out if add else 0)

        return run

    def channel_sums(
        self,
        formulas_: tuple[Formula, ...],
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        with_values: bool = False,
        **constants: float,
    ) -> Kernel:
        """``run(*arrays, outs)``: ``channel_sum`` of several formulas, in one pass where P = 1; see protocol.Device."""
        if p > 1:
            if with_values:
                return self._sums_and_values(formulas_, channels, n, c, p, scale, constants)
            return one_by_one(self, formulas_, channels, n, c, p, scale, constants)
        whole = Formula(formulas_[-1].text, merged(formulas_), constants=tuple(constants))
        how = formulas_, self.dtype.name, tuple(channels), tuple(constants), with_values
        kernels = functools.cache(lambda over: self._formulas.column_sums_kernel(*how, over))
        kernels(None)  # written now, not in the first iteration
        values = tuple(self.dtype.type(value) for value in constants.values())
        joined = _joined_rows(n, c)
        rows, width = n // joined, c * joined
        count, shapes = len(formulas_), self._channel_shapes(whole, channels, rows, width)
        size, wide, sums = (_chunks(rows), count, width), np.empty((count, width)), np.empty((count, c))

        def run(*operands):
            outs, targets = operands[-2 if with_values else -1], operands[-1:] * with_values
            named = zip(whole.arrays, operands, shapes, strict=False)  # without the results
            arrays = {name: array.reshape(shape) for name, array, shape in named}
            over = None
            for target in targets:
                same = [
                    name for name, a in arrays.items() if a.size == target.size and a.ctypes.data == target.ctypes.data
                ]
                over = same[0] if same else None
                arrays.pop(over, None)
            partial, rough = self._partial_sums(size)
            stored = [target.reshape(rows, width) for target in targets]
            kernels(over)(*stored, partial, rough, rows, *arrays.values(), *values)
            partial.sum(0, out=wide)
            wide.reshape(count, joined, c).sum(1, out=sums)
            for out, total in zip(outs, sums, strict=True):
                out.reshape(c)[...] = scale * total

        return self._repeating(run, whole.arrays, channels, joined, c)

    def _repeating(self, run: Kernel, arrays: Sequence[str], channels: Sequence[str], count: int, c: int) -> Kernel:
        """``run`` with the arrays of ``channels`` (C) repeated ``count`` times."""
        if count == 1:
            return run
        buffers = {i: self.empty((count, c)) for i, name in enumerate(arrays) if name in channels}

        def repeating(*operands):
            for i, buffer in buffers.items():
                buffer[...] = operands[i].reshape(c)
            run(*[buffers.get(i, a) for i, a in enumerate(operands)])

        return repeating

    def _sums_and_values(
        self,
        formulas_: tuple[Formula, ...],
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        scale: float,
        constants: dict[str, float],
    ) -> Kernel:
        """``channel_sums`` with values."""
        sums = self.channel_sums(formulas_, channels, n, c, p, scale, False, **constants)
        first, names = formulas_[0], merged(formulas_)
        own = {name: constants[name] for name in first.constants}
        values = self.channel_map(first, tuple(a for a in channels if a in first.arrays), n, c, p, **own)

        def run(*operands: np.ndarray) -> None:
            sums(*operands[:-1])
            arrays = dict(zip(names, operands[:-2], strict=True))
            values(*[arrays[name] for name in first.arrays], operands[-1])

        return run

    def relu_backward(self, n: int, c: int, p: int, slope: float) -> Kernel:
        """``run(y, dy, db=None, add=False)``: dy (N, C, P), the gradient of a leaky ReLU's top y, becomes that of its
        bottom; db (C) = [db +] its sum over N and P."""
        values = self.map(Formula("where(y > 0, dy, slope * dy)", ("y", "dy"), constants=("slope",)), slope=slope)
        total = self.channel_sum(Formula("dy", ("dy",)), (), n, c, p)

        def run(y: np.ndarray, dy: np.ndarray, db: np.ndarray | None = None, add: bool = False) -> None:
            values(y, dy, dy)
            if db is not None:
                total(dy, db, add=add)

        return run

    def moments(self, n: int, c: int, p: int) -> Kernel:
        """``run(x, mean, variance)``: the moments of each channel of x (N, C, P); x may be of bfloat16 where P = 1."""
        if p > 1:
            return two_passes(self, n, c, p)
        joined = _joined_rows(n, c)
        first, size = self.zeros(joined * c), (_chunks(n // joined), 2, joined * c)

        def run(x, mean, variance):
            partial, rough = self._partial_sums(size)
            channels_last.set_first(x.reshape(n, c), first)
            channels_last.moments(x.reshape(-1, joined * c), first, partial, rough)
            channels_last.join_moments(first, n, partial, mean, variance)

        return run

    def _partial_sums(self, size: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Workspace for sums of rows: in float64, and in the device's type."""
        count = math.prod(size)
        space = self.space(count * (8 + self.dtype.itemsize))
        return self.view(space, 0, size, np.float64), self.view(space, count * 8, size)

    @staticmethod
    def _channel_shapes(formula: Formula, channels, rows: int, width: int) -> list:
        return [-1 if a in channels else (rows, width) for a in formula.arrays] + [-1] * len(formula.scalars)

    def updater(
        self, formula: Formula, chunks: np.ndarray, lr_mult: np.ndarray, decay: np.ndarray, **constants: float
    ) -> Kernel:
        """``run(hyperparameters, scale, *arrays)``: an update rule over flat buffers, see protocol.Device."""
        kernel = self._formulas.update_kernel(formula, self.dtype.name)
        start, stop = (np.ascontiguousarray(chunks[:, i], np.int64) for i in (0, 1))
        tables, values = [np.ascontiguousarray(t, self.dtype) for t in (lr_mult, decay)], self._rule(formula, constants)

        def run(hyperparameters: np.ndarray, scale: np.ndarray, *arrays):
            kernel(start, stop, *tables, hyperparameters[0], scale[0], *arrays, *values(hyperparameters))

        return run

    def fused_updater(self, formula: Formula, lr_mult: float, decay: float, **constants: float) -> Kernel:
        """``run(hyperparameters, scale, x, dy, w, *history)``: see protocol.Device; sizes as algorithms.has_few_rows
        accepts them."""
        kernel, values = self._formulas.rows_update_kernel(formula, self.dtype.name), self._rule(formula, constants)
        lr_mult, decay = self.dtype.type(lr_mult), self.dtype.type(decay)

        def run(hyperparameters: np.ndarray, scale: np.ndarray, x: np.ndarray, dy: np.ndarray, *arrays: np.ndarray):
            size = self.threads, len(x) + few_rows.ROWS, few_rows.BLOCK
            space = self.workspace(math.prod(size)).reshape(size)
            kernel(x, dy, hyperparameters[0] * lr_mult, decay, scale[0], space, *arrays, *values(hyperparameters))

        return run

    def _rule(self, formula: Formula, constants: dict[str, float]) -> Callable[[np.ndarray], Sequence[Any]]:
        """What gives the constants of an update rule for an iteration's hyperparameters, see ``updater``."""
        others = [n for n in formula.constants if n not in ("rate", "decay")]
        bound = {n: self.dtype.type(constants[n]) for n in others if n in constants}
        fixed = tuple(bound.values())
        if len(bound) == len(others):
            return lambda _: fixed

        def values(hyperparameters: np.ndarray) -> Sequence[Any]:
            left = iter(hyperparameters[1:])
            return [bound[n] if n in bound else next(left) for n in others]

        return values


def _joined_rows(rows: int, c: int) -> int:
    """How many rows of C numbers a kernel takes as one: short loops cost more than their numbers."""
    count = 1
    while 2 * count * c <= JOINED and rows % (2 * count) == 0 and rows // (2 * count) >= CHUNKS:
        count *= 2
    return count


def _chunks(rows: int) -> int:
    """The number of chunks into which rows are divided for a sum over columns. Each chunk writes and reads a row of
    partial sums."""
    return max(1, min(CHUNKS, rows // 96))


def _pieces(rows: int, width: int) -> int:
    """How many pieces a row is cut into: enough to share few rows among threads, and the same for any number of
    them."""
    return max(1, min(CHUNKS // max(1, rows), width // 1024))
