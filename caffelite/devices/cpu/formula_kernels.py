"""The CPU's compiled formulas, applied to arrays: element by element, and summed."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import formula_ops
from ..dtypes import BFLOAT16
from ..formula import Formula, merged, unbias
from ..types import Kernel
from . import formulas, interpreted
from .choices import CpuChoices
from .kernels import channels_last, few_rows
from .memory import Memory
from .onednn import Library
from .registry import implements

SUMMED = 4  # arrays that a kernel adds up at once
JOINED, JOINED_SUMMED = 1024, 256  # numbers of the rows that are taken as one, and of those that are summed
CHUNKS = 64  # of a sum: fixed, so that results do not depend on the number of threads


class FormulaKernels(Memory, formula_ops.FormulaDevice):
    """Builds functions that apply a formula to arrays, and adds arrays. library: oneDNN, where the traits say
    ``channels_last``; algorithms: where they are measured."""

    library: Library | None
    algorithms: CpuChoices | None

    @property
    def compiled(self) -> ModuleType:
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


def _constants(device: FormulaKernels, formula: Formula, values: Mapping[str, float]) -> tuple[Any, ...]:
    """The constants of a formula, in its order and in the type of the device's numbers."""
    return tuple(device.dtype.type(values[name]) for name in formula.constants)


@implements(formula_ops.Map)
def map_(device: FormulaKernels, op: formula_ops.Map) -> Kernel:
    formula = op.formula
    values = _constants(device, formula, op.constants)

    def kernel(over: str | None):
        return device.compiled.map_kernel(formula, device.dtype.name, over), ()

    return formulas.Map(formula, kernel, [-1] * len(formula.arrays + formula.scalars), -1, values)


@implements(formula_ops.Sum)
def sum_(device: FormulaKernels, op: formula_ops.Sum) -> Kernel:
    formula, scale = op.formula, op.scale
    kernel = device.compiled.sum_kernel(formula, device.dtype.name)
    values = _constants(device, formula, op.constants)
    whole = np.empty(CHUNKS)

    def run(*operands, add: bool = False):
        arrays = [a.reshape(-1) for a in operands[:-1]]
        partial = whole[: max(1, min(CHUNKS, arrays[0].size // 1024))]
        kernel(partial, *arrays, *values)
        out, total = operands[-1].reshape(-1), partial[0] if partial.size == 1 else partial.sum()
        out[0] = scale * total + (out[0] if add else 0)

    return run


@implements(formula_ops.BatchMoments)
def batch_moments(device: FormulaKernels, op: formula_ops.BatchMoments) -> Kernel:
    n, c, p = op.split
    if p > 1:
        return _moments_by_maps(device, op)
    computed, variance = moments(device, n, c, p), device.zeros(c)
    factors = tuple(device.dtype.type(value) for value in (op.eps, op.keep, unbias(n)))

    def run(x, mean, scale, means, variances, count):
        computed(x, mean, variance)
        channels_last.running_moments(mean, variance, *factors, scale, means, variances, count)

    return run


@implements(formula_ops.ChannelMap)
def channel_map(device: FormulaKernels, op: formula_ops.ChannelMap) -> Kernel:
    (n, c, p), formula, channels = op.split, op.formula, op.channels
    joined = _joined_rows(n, c) if p == 1 else 1
    rows, width = (n // joined, c * joined) if p == 1 else (n * c, p)
    values = _constants(device, formula, op.constants)

    def kernel(over: str | None):
        return device.compiled.channel_map_kernel(formula, device.dtype.name, tuple(channels), p == 1, over), (
            _pieces(rows, width),
            c,
        )

    shapes = _channel_shapes(formula, channels, rows, width)
    mapped = formulas.Map(formula, kernel, shapes, (rows, width), values)
    return _repeating(device, mapped, formula.arrays, channels, joined, c)


@implements(formula_ops.ChannelSum)
def channel_sum(device: FormulaKernels, op: formula_ops.ChannelSum) -> Kernel:
    (n, c, p), formula, channels, scale = op.split, op.formula, op.channels, op.scale
    if c == 1:
        n, p = 1, n * p  # one long plane
    columns = p == 1
    rows, width = (n, c) if columns else (n * c, p)
    kernel = device.compiled.channel_sum_kernel(formula, device.dtype.name, tuple(channels), columns)
    values = _constants(device, formula, op.constants)
    shapes = _channel_shapes(formula, channels, rows, width)
    chunks = _chunks(n) if columns else _pieces(rows, width)
    size = (chunks, c) if columns else (rows, chunks)

    def run(*operands, add: bool = False):
        arrays = [a.reshape(s) for a, s in zip(operands[:-1], shapes, strict=True)]
        partial = device.workspace(size[0] * size[1], np.float64).reshape(size)
        kernel(partial, *((n,) if columns else (p, c)), *arrays, *values)
        total = partial.sum(0) if columns else partial.reshape(n, c, chunks).sum((0, 2))
        out = operands[-1].reshape(c)
        out[...] = scale * total + (out if add else 0)

    return run


@implements(formula_ops.ChannelSums)
def channel_sums(device: FormulaKernels, op: formula_ops.ChannelSums) -> Kernel:
    (n, c, p), channels, scale, with_values = op.split, op.channels, op.scale, op.with_values
    formulas_, constants = op.formulas, op.constants
    if p > 1:
        if with_values:
            return _sums_and_values(device, op)
        return _one_by_one(device, op)
    whole = Formula(formulas_[-1].text, merged(formulas_), constants=tuple(constants))
    how = formulas_, device.dtype.name, tuple(channels), tuple(constants), with_values
    kernels = functools.cache(lambda over: device.compiled.column_sums_kernel(*how, over))
    kernels(None)  # written now, not in the first iteration
    values = tuple(device.dtype.type(value) for value in constants.values())
    joined = _joined_rows(n, c, JOINED_SUMMED)
    rows, width = n // joined, c * joined
    count, shapes = len(formulas_), _channel_shapes(whole, channels, rows, width)
    size = _chunks(rows), count, width

    def run(*operands):
        outs, targets = operands[-2 if with_values else -1], operands[-1:] * with_values
        named = zip(whole.arrays, operands, shapes, strict=False)  # without the results
        arrays = {name: array.reshape(shape) for name, array, shape in named}
        over = None
        for target in targets:
            same = [name for name, a in arrays.items() if a.size == target.size and a.ctypes.data == target.ctypes.data]
            over = same[0] if same else None
            arrays.pop(over, None)
        partial, rough = _partial_sums(device, size)
        stored = [target.reshape(rows, width) for target in targets]
        kernels(over)(*stored, partial, rough, rows, *arrays.values(), *values)
        channels_last.join_sums(partial, c)
        for out, total in zip(outs, partial[0, :, :c], strict=True):
            np.multiply(total, scale, out=out.reshape(c), casting="same_kind")

    return _repeating(device, run, whole.arrays, channels, joined, c)


def _repeating(
    device: FormulaKernels, run: Kernel, arrays: Sequence[str], channels: Sequence[str], count: int, c: int
) -> Kernel:
    """``run`` with the arrays of ``channels`` (C) repeated ``count`` times."""
    if count == 1:
        return run
    buffers = {i: device.empty((count, c)) for i, name in enumerate(arrays) if name in channels}

    def repeating(*operands):
        for i, buffer in buffers.items():
            buffer[...] = operands[i].reshape(c)
        run(*[buffers.get(i, a) for i, a in enumerate(operands)])

    return repeating


def _sums_and_values(device: FormulaKernels, op: formula_ops.ChannelSums) -> Kernel:
    """``channel_sums`` with values."""
    sums, first, names = _one_by_one(device, op), op.formulas[0], merged(op.formulas)
    values = device.build(formula_ops.ChannelMap(first, _own(op.channels, first), op.split, _constants_of(op, first)))

    def run(*operands: np.ndarray) -> None:
        sums(*operands[:-1])
        arrays = dict(zip(names, operands[:-2], strict=True))
        values(*[arrays[name] for name in first.arrays], operands[-1])

    return run


def _one_by_one(device: FormulaKernels, op: formula_ops.ChannelSums) -> Kernel:
    """``channel_sums`` by one ``ChannelSum`` after the other."""
    names = merged(op.formulas)
    sums = [
        device.build(formula_ops.ChannelSum(one, _own(op.channels, one), op.split, op.scale, _constants_of(op, one)))
        for one in op.formulas
    ]

    def run(*operands: Any) -> None:
        arrays = dict(zip(names, operands[:-1], strict=True))
        for formula, total, out in zip(op.formulas, sums, operands[-1], strict=True):
            total(*[arrays[name] for name in formula.arrays], out)

    return run


def _own(channels: Sequence[str], formula: Formula) -> tuple[str, ...]:
    return tuple(name for name in channels if name in formula.arrays)


def _constants_of(op: formula_ops.ChannelSums, formula: Formula) -> dict[str, float]:
    return {name: op.constants[name] for name in formula.constants}


@implements(formula_ops.ReluBackward)
def relu_backward(device: FormulaKernels, op: formula_ops.ReluBackward) -> Kernel:
    (n, c, p), slope = op.split, op.slope
    values = device.map(Formula("where(y > 0, dy, slope * dy)", ("y", "dy"), constants=("slope",)), slope=slope)
    total = device.channel_sum(Formula("dy", ("dy",)), (), n, c, p)

    def run(y: np.ndarray, dy: np.ndarray, db: np.ndarray | None = None, add: bool = False) -> None:
        values(y, dy, dy)
        if db is not None:
            total(dy, db, add=add)

    return run


def _moments_by_maps(device: FormulaKernels, op: formula_ops.BatchMoments) -> Kernel:
    """``BatchMoments`` by other formulas."""
    n, c, p = op.split
    constants = {"keep": op.keep, "unbias": unbias(n * p)}
    variance, computed = device.zeros(c), moments(device, n, c, p)
    scale_of = device.map(Formula("1 / sqrt(v + eps)", ("v",), constants=("eps",)), eps=op.eps)
    counted = device.map(Formula("f * keep + 1", ("f",), constants=("keep",)), keep=op.keep)
    remembered = device.map(Formula("a * keep + v", ("a", "v"), constants=("keep",)), keep=op.keep)
    unbiased = device.map(Formula("a * keep + unbias * v", ("a", "v"), constants=("keep", "unbias")), **constants)

    def run(x, mean, scale, means, variances, count):
        computed(x, mean, variance)
        scale_of(variance, scale)
        remembered(means, mean, means)
        unbiased(variances, variance, variances)
        counted(count, count)

    return run


def _two_passes(device: FormulaKernels, n: int, c: int, p: int) -> Kernel:
    """``run(x, mean, variance)``: the moments of each channel of x (N, C, P), by sums over channels."""
    mean_of = device.channel_sum(Formula("x", ("x",)), (), n, c, p, 1 / (n * p))
    variance_of = device.channel_sum(Formula("(x - u) * (x - u)", ("x", "u")), ("u",), n, c, p, 1 / (n * p))

    def run(x, mean, variance):
        mean_of(x, mean)
        variance_of(x, mean, variance)

    return run


def moments(device: FormulaKernels, n: int, c: int, p: int) -> Kernel:
    """``run(x, mean, variance)``: the moments of each channel of x (N, C, P); x may be of bfloat16 where P = 1."""
    if p > 1:
        return _two_passes(device, n, c, p)
    joined = _joined_rows(n, c, JOINED_SUMMED)
    first, size = device.zeros(joined * c), (_chunks(n // joined), 2, joined * c)

    def run(x, mean, variance):
        partial, rough = _partial_sums(device, size)
        channels_last.moments(x.reshape(-1, joined * c), first, partial, rough, mean, variance)

    return run


def _partial_sums(device: FormulaKernels, size: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Workspace for sums of rows: in float64, and in the device's type."""
    count = math.prod(size)
    space = device.space(count * (8 + device.dtype.itemsize))
    return device.view(space, 0, size, np.float64), device.view(space, count * 8, size)


def _channel_shapes(formula: Formula, channels, rows: int, width: int) -> list:
    return [-1 if a in channels else (rows, width) for a in formula.arrays] + [-1] * len(formula.scalars)


@implements(formula_ops.Update)
def update(device: FormulaKernels, op: formula_ops.Update) -> Kernel:
    formula, chunks = op.formula, op.chunks
    kernel = device.compiled.update_kernel(formula, device.dtype.name)
    start, stop = (np.ascontiguousarray(chunks[:, i], np.int64) for i in (0, 1))
    tables, values = (
        [np.ascontiguousarray(t, device.dtype) for t in (op.lr_mult, op.decay)],
        _rule(device, formula, op.constants),
    )

    def run(hyperparameters: np.ndarray, scale: np.ndarray, *arrays):
        kernel(start, stop, *tables, hyperparameters[0], scale[0], *arrays, *values(hyperparameters))

    return run


@implements(formula_ops.FusedUpdate)
def fused_update(device: FormulaKernels, op: formula_ops.FusedUpdate) -> Kernel:
    """Sizes as algorithms.has_few_rows accepts them."""
    formula = op.formula
    kernel, values = (
        device.compiled.rows_update_kernel(formula, device.dtype.name),
        _rule(device, formula, op.constants),
    )
    lr_mult, decay = device.dtype.type(op.lr_mult), device.dtype.type(op.decay)

    def run(hyperparameters: np.ndarray, scale: np.ndarray, x: np.ndarray, dy: np.ndarray, *arrays: np.ndarray):
        size = device.threads, len(x) + few_rows.ROWS, few_rows.BLOCK
        space = device.workspace(math.prod(size)).reshape(size)
        kernel(x, dy, hyperparameters[0] * lr_mult, decay, scale[0], space, *arrays, *values(hyperparameters))

    return run


def _rule(
    device: FormulaKernels, formula: Formula, constants: Mapping[str, float]
) -> Callable[[np.ndarray], Sequence[Any]]:
    """What gives the constants of an update rule for an iteration's hyperparameters."""
    others = [n for n in formula.constants if n not in ("rate", "decay")]
    bound = {n: device.dtype.type(constants[n]) for n in others if n in constants}
    fixed = tuple(bound.values())
    if len(bound) == len(others):
        return lambda _: fixed

    def values(hyperparameters: np.ndarray) -> Sequence[Any]:
        left = iter(hyperparameters[1:])
        return [bound[n] if n in bound else next(left) for n in others]

    return values


def _joined_rows(rows: int, c: int, most: int = JOINED) -> int:
    """How many rows of C numbers a kernel takes as one: short loops cost more than their numbers."""
    count = 1
    while 2 * count * c <= most and rows % (2 * count) == 0 and rows // (2 * count) >= CHUNKS:
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
