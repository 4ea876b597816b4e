"""The steps of a net that only tests as one call: see kernels/program.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import algorithms, ops
from ..algorithms import LANES, PANEL, rounded
from ..inference_ops import Arena, Call, Interleave, Join, Sum, View
from .depthwise import DepthwiseConvolution
from .formula_kernels import FormulaKernels
from .kernels import program
from .kernels.channels_last import FEW
from .kernels.taps import SIDE
from .prepared import ColumnsConvolution, PreparedConvolution
from .winograd import WinogradConvolution

# A core's speed in a second: multiply-adds, numbers of a copy, weights that are read once, bytes of them that a block
# reads
MULTIPLY_ADDS, NUMBERS, WEIGHTS, STREAM = 4e10, 2.5e9, 8e9, 6e10
EXPONENTIALS = 10  # of numbers that are copied, as many as one exponential takes
LEAST_SECONDS = 1e-4  # of work from which on other threads pay: to wake one takes up to 50 µs
TASK_SECONDS = 2e-5  # of a task, about: more of them balance threads, less of them cost less
TASK_OVERHEAD = 1e-6
SHARED_SETS = 512  # channels of float32, multiples of which are in few sets of a first-level cache
MOST_TASKS = 4  # of a step, for each thread
PAGE, LINE = 4096, 64  # bytes


class Step(NamedTuple):
    """A step, and its workspace in bytes."""

    fields: list[int]
    space: int = 0


class Size(NamedTuple):
    """How a program runs: ``samples`` at a time in a step, by so many threads. offsets: of arrays in a thread's
    workspace; copies: what is written in place of an array; both by key."""

    samples: int
    threads: int
    offsets: Mapping[Hashable, int]
    copies: Mapping[Hashable, np.ndarray]

    def tasks(self, seconds: float, most: int) -> int:
        """How many tasks a step of so much work is."""
        if self.threads == 1 or seconds < TASK_SECONDS:
            return 1
        count = rounded(int(seconds / TASK_SECONDS), self.threads)
        return max(1, min(count, MOST_TASKS * self.threads, most))

    def images(self, call: Call, samples: int, first: int = 0, start: int = 0) -> list[int]:
        """The addresses of two bottoms, from the ``first`` on, and of the top, and the bytes from one sample to the
        next. samples: of the arrays. start: in the top, in bytes."""
        second = min(first + 1, len(call.bottoms) - 1)
        arrays = call.bottoms[first], call.bottoms[second], call.tops[0]
        keys = call.reads[first], call.reads[second], call.writes[0]
        addresses, steps = [], []
        for array, key in zip(arrays, keys, strict=True):
            offset = self.offsets.get(key)
            addresses.append(self.copies.get(key, array).ctypes.data if offset is None else offset)
            steps.append(array.nbytes // samples if offset is None else program.PRIVATE)
        return [*addresses[:2], addresses[2] + start, *steps]


def can_join(call: Call) -> bool:
    """Whether a call can be a step of a program, once it has run."""
    operation = call.operation
    if any(array.dtype != np.float32 for array in (*call.bottoms, *call.tops)):
        return False
    if isinstance(operation, PreparedConvolution):
        return operation.is_step()
    if isinstance(operation, ops.Pooling):
        whole = operation.window.dilation == (1, 1) and operation.method in ("MAX", "AVE")
        return operation.channels_last and whole
    if isinstance(operation, Interleave):
        return operation.channels <= FEW
    return isinstance(operation, Join | Sum | View | ops.Softmax)


class Program:
    """Calls that run one after the other, as one: each some steps, or none where nothing is to be done. threads: how
    many it is to run on."""

    def __init__(self, device: FormulaKernels, calls: Sequence[Call], arena: Arena):
        self._device, self._calls = device, calls
        samples = {_samples(call.operation) for call in self._calls}
        seconds = sum(_seconds(call.operation) for call in self._calls)
        self.threads = device.threads if seconds >= LEAST_SECONDS else 1
        count = min(samples) if len(samples) == 1 else 0
        self._copies: list[tuple[Hashable, np.ndarray, np.ndarray]] = []
        if count > 1 and count >= self.threads and self._samples_first(count):
            self._copies = self._in_the_way(arena)
            copies = {key: copy for key, _, copy in self._copies}
            self._set(self._steps(Size(1, 1, arena.offsets, copies)), count, arena.bytes)
        else:
            self._set(self._steps(Size(count, self.threads, {}, {})), 0, 0)

    def _in_the_way(self, arena: Arena) -> list[tuple[Hashable, np.ndarray, np.ndarray]]:
        """The tops whose memory is that of bottoms, which later samples read: key, array, and other memory for it. A
        step of all samples writes such a top when the bottom is read no more."""
        written = {call.writes[0]: call.tops[0] for call in self._calls}
        reads = [(key, x) for call in self._calls for key, x in zip(call.reads, call.bottoms, strict=True)]
        read = [x for key, x in reads if key not in written]
        public = {key: top for key, top in written.items() if key not in arena.offsets}
        shared = [key for key, top in public.items() if any(np.may_share_memory(top, x) for x in read)]
        return [(key, public[key], np.empty_like(public[key])) for key in shared]

    def _samples_first(self, count: int) -> bool:
        """Whether it pays to run all steps for a sample before the next one: weights are read again for each sample,
        but images stay in the caches."""
        operations = [call.operation for call in self._calls]
        if any(isinstance(operation, Join) and None in operation.starts for operation in operations):
            return False  # bottoms that are in the top's memory
        weights = sum(op.packed_bytes for op in operations if isinstance(op, PreparedConvolution))
        images = sum(array.nbytes for call in self._calls for array in (*call.bottoms, *call.tops))
        return weights < images // count

    def _steps(self, size: Size) -> list[Step]:
        steps = []
        for call in self._calls:
            steps += _STEPS[type(call.operation)](call.operation, call, size)
        return steps

    def _set(self, steps: list[Step], samples: int, arena: int) -> None:
        """arena: bytes of the workspace of a thread behind those of the steps."""
        fields = [step.fields for step in steps]
        self._fields, self._samples = np.array(fields, np.int64).reshape(-1, program.FIELDS), samples
        own = rounded(program.TABLE_BYTES + max((step.space for step in steps), default=0), LINE)
        images, lengths = self._fields[:, program.X : program.X_BYTES], self._fields[:, program.X_BYTES :][:, :3]
        images[lengths == program.PRIVATE] += own
        self._counters = np.empty((len(steps), program.COUNTER), np.int64)
        self._bytes = rounded(own + arena, PAGE) + LINE  # not at the same offset in each page, see caches' sets

    def __call__(self) -> None:
        space = self._device.space(self.threads * self._bytes + PAGE)
        start = space.ctypes.data + -space.ctypes.data % PAGE
        program.run(self._fields, self._samples, self.threads, start, self._bytes, self._counters)
        for _, top, copy in self._copies:
            top[...] = copy


def _samples(operation: Any) -> int:
    if isinstance(operation, PreparedConvolution):
        return operation.convolution.x[0]
    if isinstance(operation, ops.Softmax):
        return operation.n
    return operation.x[0] if isinstance(operation, ops.Pooling) else operation.samples


def _seconds(operation: Any) -> float:
    if isinstance(operation, PreparedConvolution):
        conv = operation.convolution
        x, y, window, groups = conv.x, conv.y, conv.window, conv.groups
        return algorithms.work(x, y, window, groups) / MULTIPLY_ADDS + (math.prod(x) + math.prod(y)) / NUMBERS
    if isinstance(operation, ops.Pooling):
        return (math.prod(operation.x) + math.prod(operation.y)) / NUMBERS
    if isinstance(operation, Join):
        return 2 * operation.samples * operation.rows * sum(operation.widths) / NUMBERS
    if isinstance(operation, Interleave):
        return 2 * math.prod(operation) / NUMBERS
    if isinstance(operation, ops.Softmax):
        return EXPONENTIALS * operation.n * operation.c * operation.p / NUMBERS
    return 3 * operation.samples * operation.numbers / NUMBERS


def _divided(items: int, unit: int, most: int, panels: int, seconds: float, weights: int, size: Size) -> tuple:
    """(items in a block, ranges of panels) of the division of a product that ends first. unit: of a block; most: items
    in it; seconds: of the product."""
    tasks, least = size.tasks(seconds, 1 << 20), -(-items // most)
    best = (math.inf, 0, 0)
    for ranges in range(1, min(panels, tasks) + 1):
        share = -(-panels // ranges) / panels
        for wanted in range(least, max(least + size.threads - 1, -(-tasks // ranges)) + 1):
            block = min(rounded(-(-items // wanted), unit), rounded(most, unit))
            blocks = -(-items // block)
            each = (block * seconds / items + weights / STREAM) * share + TASK_OVERHEAD
            end = -(-blocks * ranges // size.threads) * each
            best = min(best, (end, block, ranges))
    return best[1:]


def _convolution(op: PreparedConvolution, call: Call, size: Size) -> list[Step]:
    chosen, images = op.chosen, size.images(call, op.convolution.x[0])
    samples = size.samples or op.convolution.x[0]
    c, h, w = op.convolution.x[1:]
    m, high, wide = op.convolution.y[1:]
    window = op.convolution.window
    shape = samples, h, w, c, high, wide, m
    seconds = _seconds(op) * samples / op.convolution.x[0]
    if isinstance(chosen, DepthwiseConvolution):
        tasks = size.tasks(seconds, samples * high)
        ring = SIDE * w * (c + LANES) if c % SHARED_SETS == 0 else 0
        data = (*(a.ctypes.data for a in (op.packed, op.bias)), _bits(op.slope), chosen.zeros.ctypes.data, ring)
        sizes = *shape[:6], op.packed.shape[1], window.stride[0], *window.pad
        fields = program.fields(program.DEPTHWISE, tasks, images, data, sizes)
        return [Step(fields, 4 * (op.packed.shape[1] + ring))]
    if isinstance(chosen, ColumnsConvolution):
        return [_columns(chosen, images, shape, seconds, size)]
    assert isinstance(chosen, WinogradConvolution)
    return [_winograd(op, chosen, images, shape, seconds, size)]


def _columns(op: ColumnsConvolution, images: list[int], shape: tuple[int, ...], seconds: float, size: Size) -> Step:
    samples, *_, high, wide, m = shape
    panels, unit = op.starts.size - 1, op.rows
    items, most = samples * high * wide, max(unit, op.most)
    block, ranges = _divided(items, unit, most, panels, seconds, op.packed.nbytes, size)
    tasks = -(-items // block) * ranges
    data = *(a.ctypes.data for a in (op.packed, op.starts, *op.after)), block, ranges
    fields = program.fields(
        program.COLUMNS, tasks, images, data, (*shape, panels, *op.window, op.by_rows, op.space(block))
    )
    return Step(fields, 4 * (op.space(block) * op.depth + PANEL * LANES))


def _winograd(
    op: PreparedConvolution,
    chosen: WinogradConvolution,
    images: list[int],
    shape: tuple[int, ...],
    seconds: float,
    size: Size,
) -> Step:
    samples, _, _, c, high, wide, m = shape
    tile, panels = chosen.tile, chosen.panels.size - 1
    items = samples * -(-high // tile.outputs) * -(-wide // tile.outputs)
    most = algorithms.block_tiles(c, m, items, tile, 1)
    seconds *= tile.square / tile.taps / tile.outputs**2
    block, ranges = _divided(items, algorithms.ROWS, most, panels, seconds, op.packed.nbytes, size)
    numbers = algorithms.block_numbers(c, block, tile)
    data = (*(a.ctypes.data for a in (op.packed, chosen.panels, op.bias)), _bits(op.slope), block, ranges)
    sizes = *shape, panels, *op.convolution.window.pad, *tile, op.packed.size, numbers
    fields = program.fields(program.WINOGRAD, -(-items // block) * ranges, images, data, sizes)
    return Step(fields, 4 * numbers)


def _bits(slope: float) -> int:
    return int(np.float32(slope).view(np.int32))


def _pooling(op: ops.Pooling, call: Call, size: Size) -> list[Step]:
    (n, c, h, w), (_, _, high, wide), (kernel, stride, pad, _) = op.x, op.y, op.window
    method = program.MAXIMUM if op.method == "MAX" else program.MEAN if any(pad) else program.MEAN_INSIDE
    samples = size.samples or n
    tasks = size.tasks(_seconds(op) * samples / n, samples * high)
    sizes = samples, h, w, c, high, wide, method, *kernel, *stride, *pad
    return [Step(program.fields(program.POOLING, tasks, size.images(call, n), (), sizes))]


def _join(op: Join, call: Call, size: Size) -> list[Step]:
    steps, samples = [], size.samples or op.samples
    for i, (width, start) in enumerate(zip(op.widths, op.starts, strict=True)):
        if start is not None:
            rows = samples * op.rows
            tasks = size.tasks(2 * rows * width / NUMBERS, rows)
            images = size.images(call, op.samples, i, 4 * start)
            steps.append(Step(program.fields(program.COPY, tasks, images, (), (rows, width, op.pitch))))
    return steps


def _sum(op: Sum, call: Call, size: Size) -> list[Step]:
    count = (size.samples or op.samples) * op.numbers
    tasks = size.tasks(3 * count / NUMBERS, -(-count // LANES))
    images = size.images(call, op.samples)
    return [Step(program.fields(program.SUM, tasks, images, (_bits(op.slope),), (count,)))]


def _interleave(op: Interleave, call: Call, size: Size) -> list[Step]:
    samples = size.samples or op.samples
    tasks = size.tasks(_seconds(op) * samples / op.samples, op.pixels)
    sizes = samples, op.channels, op.pixels
    return [Step(program.fields(program.INTERLEAVE, tasks, size.images(call, op.samples), (), sizes))]


def _softmax(op: ops.Softmax, call: Call, size: Size) -> list[Step]:
    samples = size.samples or op.n
    tasks = size.tasks(_seconds(op) * samples / op.n, samples)
    return [Step(program.fields(program.SOFTMAX, tasks, size.images(call, op.n), (), (samples, op.c, op.p)))]


_STEPS: dict[type, Callable[[Any, Call, Size], list[Step]]] = {
    PreparedConvolution: _convolution,
    ops.Pooling: _pooling,
    Join: _join,
    Sum: _sum,
    Interleave: _interleave,
    ops.Softmax: _softmax,
}
