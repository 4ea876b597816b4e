"""A GPU's compiled formulas, applied to arrays: element by element, and summed."""

import functools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from .. import formula_ops
from ..formula import Formula, merged, unbias
from ..types import Array, Kernel
from . import channel_sums as sums_sources, formulas
from .kernels import BLOCK, Kernels, grid, grid_of_rows
from .memory import pitch
from .registry import implements

CHUNKS = 1024  # most blocks of a sum: fixed, so that results do not depend on the GPU; 8 a multiprocessor of an H100
PARTIAL_BYTES = 256 << 10  # of partial sums of channels, about: one block sums them up
ACROSS = 8  # threads that read one row of channels: 128 bytes, a cache line
UPDATE_TILE = 2048  # elements that one block of an update rule takes
PIECE = 8192  # numbers of a channel's sum per block
TILE_BITS = 10  # numbers of a tile that is transposed, as a power of 2


class FormulaKernels(Kernels, formula_ops.FormulaDevice):
    """Builds functions that apply a formula to arrays, and adds and converts arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._sum_of_two, self._convert = self.map(Formula("a + b", ("a", "b"))), self.map(Formula("a", ("a",)))

    def transpose(self, source: Array, target: Array) -> None:
        """target (N, B, A) = source (N, A, B) with its last axes swapped."""
        n, a, b = source.shape
        height, width = ((side - 1).bit_length() for side in (a, b))  # of a tile, as powers of 2
        width = min(width, TILE_BITS - min(height, TILE_BITS // 2))
        height = min(height, TILE_BITS - width)
        threads = n * math.ceil(a / 2**height) * math.ceil(b / 2**width) * BLOCK
        self.cached_kernel("copies", "transpose", threads, height, width, n, a, b)(source, target)

    def copy_into(self, source: Array, target: Array, start: int) -> None:
        """target[:, start : start + S] = source, of target (R, T) and source (R, S)."""
        self._columns("copy_into", source, target, start)

    def copy_out(self, source: Array, start: int, target: Array, more: Sequence[Array] = ()) -> None:
        """target = source[:, start : start + S] + the same columns of at most 7 arrays ``more``."""
        if more:
            self._columns("sum_out", target, source, start, *more, *[None] * (7 - len(more)))
        else:
            self._columns("copy_out", target, source, start)

    def _columns(self, name: str, part: Array, whole: Array, start: int, *more: Array | None) -> None:
        (rows, width), total = part.shape, whole.shape[1]
        self.cached_kernel("copies", name, math.ceil(part.size / 4), start, rows, width, total)(part, whole, *more)

    def add(self, source: Array, target: Array) -> None:
        """target += source, views as in ``assign``."""
        if source.size != target.size or not (source.flags.c_contiguous and target.flags.c_contiguous):
            self.backend.add(source, target)
        else:
            self._sum_of_two(source, target, target)

    def conversions(self) -> tuple[Kernel, Kernel]:
        """``to_half(x, y)`` rounds float32 numbers to 16 bits, ``to_float(x, y)`` converts them back."""
        return self._convert, self._convert

    def to_float32(self, array: Array) -> Array:
        """A float32 copy of an array of 16-bit numbers."""
        if not array.flags.c_contiguous:
            self.assign(array, whole := self.empty(array.shape, array.dtype))
            array = whole
        self._convert(array, wide := self.empty(array.shape))
        return wide

    def typed(self, source, name: str, formulas_: tuple[Formula, ...], results=("out",), whole=np.int64):
        """``choose(arrays)``: the kernel of the text ``source(types)`` for the types of these arrays, the formulas',
        their scalars and ``results``, and how many numbers a thread takes at once."""
        names, compiled = (*merged(formulas_), *merged(formulas_, "scalars"), *results), {}

        def choose(arrays):
            key = tuple(a.dtype for a in arrays)
            if key not in compiled:
                types = {n: formulas.TYPES[a.dtype.name] for n, a in zip(names, arrays, strict=True)}
                compiled[key] = self.compile(source(types), name, whole), formulas.packed(types.values())
            return compiled[key]

        return choose


def _constants(device: FormulaKernels, formulas_: tuple[Formula, ...], values: formula_ops.Constants) -> tuple:
    return tuple(device.dtype.type(values[name]) for name in merged(formulas_, "constants"))


@implements(formula_ops.Map)
def map_(device: FormulaKernels, op: formula_ops.Map) -> Kernel:
    formula = op.formula
    choose = device.typed(partial(formulas.map_source, formula), "formula_map", (formula,))
    values = _constants(device, (formula,), op.constants)

    def run(*operands):
        (*inputs, out), (launch, each) = operands, choose(operands)
        launch(grid(out.size, each * BLOCK), (BLOCK, 1, 1), (np.int64(out.size), out, *inputs, *values))

    return run


@implements(formula_ops.Sum)
def sum_(device: FormulaKernels, op: formula_ops.Sum) -> Kernel:
    formula, scale = op.formula, op.scale
    choose = device.typed(partial(formulas.sum_source, formula), "formula_sum", (formula,))
    values = _constants(device, (formula,), op.constants)
    sums, come = device.empty(CHUNKS, np.float64), device.zeros(1, np.uint32)

    def run(*operands, add: bool = False):
        (*inputs, out), (launch, each) = operands, choose(operands)
        n = inputs[0].size
        result = sums, come, out, np.float64(scale), np.int64(add)
        launch(grid(n, 4 * each * BLOCK, CHUNKS), (BLOCK, 1, 1), (np.int64(n), *result, *inputs, *values))

    return run


@implements(formula_ops.ChannelMap)
def channel_map(device: FormulaKernels, op: formula_ops.ChannelMap) -> Kernel:
    (n, c, p), formula, channels = op.split, op.formula, op.channels
    whole = device.index_type(n * c * p)
    source = partial(formulas.channel_map_source, formula, tuple(channels), p == 1)
    choose = device.typed(source, "formula_channel_map", (formula,), whole=whole)
    values, sizes = _constants(device, (formula,), op.constants), (whole(n), whole(c), whole(p))

    def run(*operands):
        (*inputs, out), (launch, each) = operands, choose(operands)
        blocks = grid_of_rows(n, c, each, formulas.BATCH) if p == 1 else grid(n * c * p, each * BLOCK)
        launch(blocks, (BLOCK, 1, 1), (*sizes, out, *inputs, *values))

    return run


@implements(formula_ops.ChannelSums)
def channel_sums(device: FormulaKernels, op: formula_ops.ChannelSums) -> Kernel:
    with_values, scale = op.with_values, op.scale
    ending = sums_sources.plain_ending(len(op.formulas))
    launch = _sums(device, op.formulas, op.channels, op.split, ending, op.constants, with_values)

    def run(*operands):
        outs, tail = (operands[-2], operands[-1:]) if with_values else (operands[-1], ())
        launch((np.float64(scale), False, *outs, *tail), operands[: -1 - with_values])

    return run


@implements(formula_ops.ChannelSum)
def channel_sum(device: FormulaKernels, op: formula_ops.ChannelSum) -> Kernel:
    scale = op.scale
    launch = _sums(device, (op.formula,), op.channels, op.split, sums_sources.plain_ending(1), op.constants)

    def run(*operands, add: bool = False):
        launch((np.float64(scale), add, operands[-1]), operands[:-1])

    return run


@implements(formula_ops.ReluBackward)
def relu_backward(device: FormulaKernels, op: formula_ops.ReluBackward) -> Kernel:
    (_, c, _), slope = op.split, op.slope
    formula = Formula("where(y > 0, dy, slope * dy)", ("y", "dy"), constants=("slope",))
    alone, unread = device.map(formula, slope=slope), functools.cache(lambda: device.empty(c))
    launch = _sums(device, (formula,), (), op.split, sums_sources.plain_ending(1), {"slope": slope}, kept=True)

    def run(y, dy, db=None, add: bool = False):
        if db is not None:
            launch((np.float64(1), add, db, dy), (y, dy))
        elif y.flags.c_contiguous and dy.flags.c_contiguous:
            alone(y, dy, dy)
        else:
            launch((np.float64(1), False, unread(), dy), (y, dy))

    return run


@implements(formula_ops.BatchMoments)
def batch_moments(device: FormulaKernels, op: formula_ops.BatchMoments) -> Kernel:
    """One pass, of differences from the first number."""
    n, _, p = op.split
    both = Formula("x - first", ("x", "first")), Formula("(x - first) * (x - first)", ("x", "first"))
    launch = _sums(device, both, ("first",), op.split, sums_sources.BATCH_MOMENTS, {})
    constants = np.float64(1 / (n * p)), float(op.eps), float(op.keep), float(unbias(n * p))

    def run(x, *results):
        launch((*constants, *results), (x, x))

    return run


def _sums(
    device: FormulaKernels,
    formulas_: tuple[Formula, ...],
    channels,
    split: tuple[int, int, int],
    ending,
    constants: formula_ops.Constants,
    kept: bool = False,
):
    """``launch(results, operands)``: sums of formulas into channels; results: what the ending's parameters and
    ``kept`` are. Where P is 1, operands and ``kept`` may be slices of wider rows."""
    n, c, p = split
    if c == 1:
        n, p = 1, n * p  # one long plane
    columns, whole = p == 1, device.index_type(n * c * p)
    values, shapes = _constants(device, formulas_, constants), {}

    def source(sliced, types):
        return sums_sources.channel_sums_source(formulas_, tuple(channels), columns, types, ending, kept, sliced)

    whole_rows, slices = (
        device.typed(partial(source, sliced), "formula_channel_sums", formulas_, ("kept",) * kept, whole)
        for sliced in (False, True)
    )

    def shape(each: int):
        """The grid, the block, and what the kernel takes first, for threads of ``each`` columns."""
        across = min(ACROSS, 1 << max(0, math.ceil(c / each) - 1).bit_length()) if columns else 1
        width = across * each if columns else 1
        groups, numbers, sums = math.ceil(c / width), width * n * p, len(formulas_)
        most = min(CHUNKS, PARTIAL_BYTES // (8 * sums * groups * width)) if columns else CHUNKS // groups
        pieces = max(1, min(math.ceil(numbers / PIECE), most))
        teams = math.ceil(pieces / sums_sources.TEAM) if columns else 0
        totals = device.empty(sums * groups * width * (pieces + teams) if pieces > 1 else 1, np.float64)
        sizes = (whole(v) for v in (n, c, p, pieces, across))
        first = (*sizes, totals, device.zeros(groups * (teams + 1), np.uint32))
        return grid(groups * pieces, 1), (BLOCK, 1, 1), first

    def launch(results, operands):
        arrays = (*operands, *results[-1:]) if kept else operands
        pitches = [pitch(array) for array in arrays]
        run, each = (slices if any(pitches) else whole_rows)(arrays)
        tail = [whole(apart or c) for apart in pitches] if any(pitches) else ()
        if each not in shapes:
            shapes[each] = shape(each)
        grid, block, first = shapes[each]
        run(grid, block, (*first, *(device.argument(v, whole) for v in results), *operands, *values, *tail))

    return launch


@implements(formula_ops.Update)
def update(device: FormulaKernels, op: formula_ops.Update) -> Kernel:
    formula, constants = op.formula, op.constants
    launch = device.compile(formulas.update_source(formula, tuple(constants)), "formula_update")
    tiles = [
        (at, min(at + UPDATE_TILE, stop), k)
        for k, (start, stop) in enumerate(op.chunks)
        for at in range(start, stop, UPDATE_TILE)
    ]
    start, stop, owner = np.array(tiles, np.int64).reshape(-1, 3).T
    multipliers = (np.asarray(each, device.dtype)[owner] for each in (op.lr_mult, op.decay))
    tables = [device.uploaded(table) for table in (start, stop, *multipliers)]
    grid, values = (len(tiles), 1, 1), [device.dtype.type(constants[n]) for n in formula.constants if n in constants]

    def run(hyperparameters, scale, *arrays):
        if tiles:
            launch(grid, (BLOCK, 1, 1), (*tables, hyperparameters, scale, *arrays, *values))

    return run
