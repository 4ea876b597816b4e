"""The steps of a net that only tests in one compiled call: convolutions with constant weights, and what stands between
them. Images are channels_last float32.

A step is a row of FIELDS numbers: its kind, how many tasks it is, addresses and sizes. Threads take the tasks of a step
as they come, and go on to the next step when all are done, without a call of the system in between; or each thread
takes a sample and runs all steps for it, so that what a step writes is still in the core's cache when the next one
reads it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES, PANEL
from . import columns, depthwise, winograd
from .channels_last import interleave
from .parallel import body, launch
from .settings import kernel
from .softmax import softmax_rows
from .team import count_up, wait_for
from .vectors import VECTOR, Vectors, broadcast, copy, each_vector, splat

COLUMNS, DEPTHWISE, WINOGRAD, POOLING, COPY, SUM, INTERLEAVE, SOFTMAX = range(8)  # kinds of steps
KIND, TASKS, X, OTHER, Y, X_BYTES, OTHER_BYTES, Y_BYTES = range(8)  # the bytes: from one sample to the next
DATA, SIZES, FIELDS = 8, 16, 40  # where the addresses of a kind start, and its sizes; numbers of a step
COUNTER = 16  # numbers from one step's counters to the next one's: those of two steps share no cache line
TABLE_BYTES = 8 * max(depthwise.TABLE, 128)  # of the addresses that a task needs, at the start of its workspace
PRIVATE = -1  # in place of the bytes: what is in the workspace of a thread, an offset in place of an address
MAXIMUM, MEAN, MEAN_INSIDE = range(3)  # poolings: the mean of whole windows, or of what is inside the image


def fields(kind: int, tasks: int, images: Sequence[int], data: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The FIELDS numbers of a step. images: the addresses of x, of another input and of y, and their BYTES."""
    row = [kind, tasks, *images, *data]
    row += [0] * (SIZES - len(row))
    row += map(int, sizes)
    return row + [0] * (FIELDS - len(row))


@intrinsic
def _pointer(_context, address):
    """An address as a pointer."""

    def codegen(context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def _real(_context, bits):
    """The float32 number with these bits."""

    def codegen(context, builder, _signature, arguments):
        return builder.bitcast(builder.trunc(arguments[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), codegen


@kernel
def _columns(d, task, x, y, space):
    """A block of pixels and a range of panels: the tasks of a block are one after the other."""
    packed, starts, bias, slopes, block, groups = d[8], d[9], d[10], d[11], d[12], d[13]
    n, h, w, c, high, wide, m, panels = d[16], d[17], d[18], d[19], d[20], d[21], d[22], d[23]
    window = d[24], d[25], d[26], d[27], d[28], d[29], d[30], d[31]
    depth, pixels, b, g = window[0] * window[1] * c, n * high * wide, task // groups, task % groups
    width = -(-m // LANES) * LANES
    columns.convolve_blocks(
        carray(_pointer(x), (n, h, w, c), np.float32),
        carray(_pointer(packed), (depth * width,), np.float32),
        carray(_pointer(starts), (panels + 1,), np.int64),
        carray(_pointer(bias), (width,), np.float32),
        carray(_pointer(slopes), (width,), np.float32),
        carray(_pointer(y), (pixels, m), np.float32),
        (high, wide),
        window,
        d[32] != 0,
        block,
        carray(_pointer(space + TABLE_BYTES), (d[33], depth), np.float32),
        carray(_pointer(space + TABLE_BYTES + 4 * d[33] * depth), (PANEL * LANES,), np.float32),
        (b, b + 1),
        (g * panels // groups, (g + 1) * panels // groups),
    )


@kernel
def _depthwise(d, task, x, y, space):
    packed, bias, slope, zeros, ring = d[8], d[9], d[10], d[11], d[12]
    n, h, w, c, high, wide, width, stride = d[16], d[17], d[18], d[19], d[20], d[21], d[22], d[23]
    first, last = task * n * high // d[TASKS], (task + 1) * n * high // d[TASKS]
    what = (
        carray(_pointer(x), (n, h, w, c), np.float32),
        carray(_pointer(packed), (9, width), np.float32),
        carray(_pointer(bias), (c,), np.float32),
        _real(slope),
        carray(_pointer(y), (n, high, wide, c), np.float32),
        (d[24], d[25]),
        stride,
        carray(_pointer(space + TABLE_BYTES), (width,), np.float32),
        carray(_pointer(space), (depthwise.TABLE,), np.int64),
        carray(_pointer(zeros), (c,), np.float32),
    )
    if ring:
        rows = carray(_pointer(space + TABLE_BYTES + 4 * width), (ring,), np.float32)
        depthwise.convolve_padded_rows(*what, rows, first, last)
    else:
        depthwise.convolve_rows(*what, first, last)


@kernel
def _winograd(d, task, x, y, space):
    packed, starts, bias, slope, block, groups = d[8], d[9], d[10], d[11], d[12], d[13]
    n, h, w, c, high, wide, m, panels = d[16], d[17], d[18], d[19], d[20], d[21], d[22], d[23]
    pad, outputs, size, length, numbers = (d[24], d[25]), d[26], d[27], d[28], d[29]
    g = task % groups
    winograd.convolve_block(
        carray(_pointer(x), (n, h, w, c), np.float32),
        carray(_pointer(packed), (length,), np.float32),
        carray(_pointer(starts), (panels + 1,), np.int64),
        carray(_pointer(bias), (m,), np.float32),
        _real(slope),
        carray(_pointer(y), (n, high, wide, m), np.float32),
        (0, 1, outputs, size),
        pad,
        block,
        carray(_pointer(space + TABLE_BYTES), (numbers,), np.float32),
        carray(_pointer(space), (2, 64), np.int64),
        task // groups,
        (g * panels // groups, (g + 1) * panels // groups),
    )


def _pool_pixel(maximum: bool) -> Any:
    """``run(window, row, pixel, high, wide, divisor, channels, target)``: the maximum, or the sum / divisor, of a
    window of high × wide pixels at addresses that are ``row`` and ``pixel`` bytes apart. A NaN wins."""

    @intrinsic
    def run(_context, window, row, pixel, high, wide, divisor, channels, target):
        def codegen(context, builder, _signature, arguments):
            window, row, pixel, high, wide, divisor, channels, target = arguments
            divisors = broadcast(builder, divisor, VECTOR)

            def body(vectors: Vectors, at: Any, _offset: Any) -> None:
                start = builder.add(window, at)
                total = cgutils.alloca_once(builder, VECTOR)
                builder.store(vectors.load(start) if maximum else splat(VECTOR, 0.0), total)
                with cgutils.for_range(builder, high) as line:
                    address = builder.add(start, builder.mul(line.index, row))
                    with cgutils.for_range(builder, wide) as column:
                        value = vectors.load(builder.add(address, builder.mul(column.index, pixel)))
                        builder.store(joined(builder.load(total), value), total)
                value = builder.load(total)
                vectors.store(value if maximum else builder.fdiv(value, divisors), builder.add(target, at))

            def joined(total: Any, value: Any) -> Any:
                if not maximum:
                    return builder.fadd(total, value)
                wins = builder.fcmp_ordered(">", value, total)
                return builder.select(builder.or_(wins, builder.fcmp_unordered("uno", value, value)), value, total)

            each_vector(builder, channels, 4, body)
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, n, n, types.float32, n, n), codegen

    return run


_maximum, _mean = _pool_pixel(True), _pool_pixel(False)


@kernel
def _pooling(d, task, x, y):
    n, h, w, c, high, wide, method = d[16], d[17], d[18], d[19], d[20], d[21], d[22]
    kh, kw, sh, sw, ph, pw = d[23], d[24], d[25], d[26], d[27], d[28]
    rows, pixel = n * high, 4 * c
    for r in range(task * rows // d[TASKS], (task + 1) * rows // d[TASKS]):
        image, oh = r // high, r % high
        h0, h1 = max(0, oh * sh - ph), min(h, oh * sh - ph + kh)
        for ow in range(wide):
            w0, w1 = max(0, ow * sw - pw), min(w, ow * sw - pw + kw)
            window = x + ((image * h + h0) * w + w0) * pixel, w * pixel, pixel, h1 - h0, w1 - w0
            target = y + (r * wide + ow) * pixel
            if method == MAXIMUM:
                _maximum(*window, np.float32(1), c, target)
            else:
                pixels = (h1 - h0) * (w1 - w0) if method == MEAN_INSIDE else kh * kw
                _mean(*window, np.float32(pixels), c, target)


@kernel
def _copy(d, task, x, y):
    """Rows of ``width`` numbers to rows that are ``pitch`` numbers apart."""
    rows, width, pitch = d[16], d[17], d[18]
    for r in range(task * rows // d[TASKS], (task + 1) * rows // d[TASKS]):
        copy(x + r * width * 4, y + r * pitch * 4, width)


@kernel
def _sum(d, task, x, other, y):
    count, slope = d[16], _real(d[8])
    first, last = task * count // d[TASKS], (task + 1) * count // d[TASKS]
    a, b = carray(_pointer(x), (count,), np.float32), carray(_pointer(other), (count,), np.float32)
    out = carray(_pointer(y), (count,), np.float32)
    for i in range(first, last):
        v = a[i] + b[i]
        out[i] = v if v > 0 or v != v else v * slope


@kernel
def _interleave(d, task, x, y):
    n, c, pixels = d[16], d[17], d[18]
    source, target = carray(_pointer(x), (n, c, pixels), np.float32), carray(_pointer(y), (n, pixels, c), np.float32)
    for i in range(n):
        interleave(source[i], target[i], task * pixels // d[TASKS], (task + 1) * pixels // d[TASKS])


@kernel
def _softmax(d, task, x, y):
    shape = d[16], d[17], d[18]
    first, last = task * d[16] // d[TASKS], (task + 1) * d[16] // d[TASKS]
    softmax_rows(first, last, carray(_pointer(x), shape, np.float32), carray(_pointer(y), shape, np.float32))


@kernel
def _image(d, which, sample, space):
    """The address of a sample: of an array of all samples, or in the thread's workspace."""
    step = d[X_BYTES + which]
    return space + d[X + which] if step == PRIVATE else d[X + which] + sample * step


@kernel
def _run(d, task, sample, space):
    x, other, y = _image(d, 0, sample, space), _image(d, 1, sample, space), _image(d, 2, sample, space)
    kind = d[KIND]
    if kind == COLUMNS:
        _columns(d, task, x, y, space)
    elif kind == DEPTHWISE:
        _depthwise(d, task, x, y, space)
    elif kind == WINOGRAD:
        _winograd(d, task, x, y, space)
    elif kind == POOLING:
        _pooling(d, task, x, y)
    elif kind == COPY:
        _copy(d, task, x, y)
    elif kind == SUM:
        _sum(d, task, x, other, y)
    elif kind == INTERLEAVE:
        _interleave(d, task, x, y)
    else:
        _softmax(d, task, x, y)


@body
def _step_by_step(first, last, steps, space, size, counters):
    for t in range(first, last):
        for i in range(steps.shape[0]):
            taken, done, tasks = counters + 8 * COUNTER * i, counters + 8 * (COUNTER * i + 1), steps[i, TASKS]
            task = count_up(taken)
            while task < tasks:
                _run(steps[i], task, 0, space + t * size)
                count_up(done)
                task = count_up(taken)
            wait_for(done, tasks)


@body
def _sample_by_sample(first, last, steps, samples, space, size, counters):
    for t in range(first, last):
        sample = count_up(counters)
        while sample < samples:
            for i in range(steps.shape[0]):
                for task in range(steps[i, TASKS]):
                    _run(steps[i], task, sample, space + t * size)
            sample = count_up(counters)


@kernel
def run(steps, samples, threads, space, size, counters):
    """Runs steps (count, FIELDS), one after the other; ``samples`` times, for each sample, or once where that is 0.
    space: the address of a workspace of ``size`` bytes for each thread. counters (count, COUNTER)."""
    counters[:] = 0
    if samples:
        launch(_sample_by_sample, threads, (steps, samples, space, size, counters.ctypes.data))
    else:
        launch(_step_by_step, threads, (steps, space, size, counters.ctypes.data))
