"""Direct convolution in channels_last layout, without columns: outputs of few channels, and weight gradients.

A tile is some rows times two vectors of output channels, or one. It stays in registers while the kernel adds up
products of a number of x with a vector. In the forward pass a row is a pixel and the sum is over the C·kh·kw positions
of the window, in Caffe's order; in the gradient a row is a position, and the sum is over pixels.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...processor import has_registers
from .parallel import body, launch, loop
from .settings import kernel

LANES = 16 if has_registers() else 8  # numbers in a vector
ROWS = 8 if has_registers() else 6  # of a tile: with more, the compiler keeps some sums in memory
GROUP = 2 * LANES  # channels in a tile
BLOCK = 256  # products summed before they join the total, as BLAS does it: longer sums round worse


def _tile(vectors: int):
    """``tile(x, rows, steps, w, stride, y, count, add)``: y (ROWS, GROUP) = [y +] Σ x[rows + steps] · w, all addresses.
    stride: numbers from a row of w to the next."""

    @intrinsic
    def tile(typingctx, x, rows, steps, w, stride, y, count, add):
        def codegen(context, builder, signature, args):
            x, rows, steps, w, stride, y, count, add = args
            real, word = ir.FloatType(), ir.IntType(64)
            vector = ir.VectorType(real, LANES)
            blank = ir.Constant(vector, [0.0] * LANES)

            def at(base, index, kind):
                return builder.gep(builder.inttoptr(base, kind.as_pointer()), [index])

            def vector_at(base, index):
                return builder.bitcast(at(base, index, real), vector.as_pointer())

            def number(value):
                return ir.Constant(word, value)

            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{LANES}f32"
            )
            starts = [builder.load(at(rows, number(r), word)) for r in range(ROWS)]
            sums = [cgutils.alloca_once_value(builder, blank) for _ in range(ROWS * vectors)]
            with cgutils.for_range_slice(builder, number(0), count, number(1)) as (k, _):
                step, row = builder.load(at(steps, k, word)), builder.mul(k, stride)
                factors = [
                    builder.load(vector_at(w, builder.add(row, number(LANES * v))), align=4) for v in range(vectors)
                ]
                for r in range(ROWS):
                    value = builder.load(at(x, builder.add(starts[r], step), real))
                    spread = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                    spread = builder.shuffle_vector(
                        spread,
                        ir.Constant(vector, ir.Undefined),
                        ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES),
                    )
                    for v in range(vectors):
                        total = sums[r * vectors + v]
                        builder.store(builder.call(fma, [spread, factors[v], builder.load(total)]), total)
            for r in range(ROWS):
                for v in range(vectors):
                    target = vector_at(y, number(GROUP * r + LANES * v))
                    before = builder.select(add, builder.load(target, align=4), blank)
                    builder.store(builder.fadd(before, builder.load(sums[r * vectors + v])), target, align=4)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(*[whole] * 7, types.boolean), codegen

    return tile


_tile1, _tile2 = _tile(1), _tile(2)


@kernel
def _add(x, rows, steps, w, stride, y, count, add, channels):
    """A tile of at most GROUP channels; does nothing for none."""
    if channels > LANES:
        _tile2(x, rows, steps, w, stride, y, count, add)
    elif channels > 0:
        _tile1(x, rows, steps, w, stride, y, count, add)


@loop("packed.shape[1]")
def pack(first, last, w, packed):
    """packed (groups, K, GROUP) = w (M, K) turned, zeros behind the last channel."""
    for k in range(first, last):
        for m in range(packed.shape[0] * GROUP):
            packed[m // GROUP, k, m % GROUP] = w[m, k] if m < w.shape[0] else 0


@loop("space.shape[0]")
def forward(first, last, x, packed, bias, biased, slope, rectified, y, starts, offsets, space):
    """y (N, P, M) = the convolution of x (N, H·W·C) + bias (M), then leaky ReLU where rectified.

    starts (⌈P / ROWS⌉·ROWS): the offset of each output's window in an image; offsets (K): of each position from
    there, in Caffe's order; packed (groups, K, GROUP); space (threads, ROWS·GROUP): workspace.
    """
    count, outputs, channels = x.shape[0], y.shape[1], y.shape[2]
    threads, depth = space.shape[0], offsets.size
    for t in range(first, last):
        for image in range(t * count // threads, (t + 1) * count // threads):
            source, total = x.ctypes.data + image * x.shape[1] * 4, space.ctypes.data + t * ROWS * GROUP * 4
            for start in range(0, outputs, ROWS):
                where = starts.ctypes.data + start * 8
                for g in range(packed.shape[0]):
                    begin = g * GROUP
                    wide = min(GROUP, channels - begin)
                    for k in range(0, depth, BLOCK):
                        weights, steps = packed.ctypes.data + (g * depth + k) * GROUP * 4, offsets.ctypes.data + k * 8
                        _add(source, where, steps, weights, GROUP, total, min(BLOCK, depth - k), k > 0, wide)
                    for p in range(start, min(outputs, start + ROWS)):
                        out, row = y[image, p, begin:], space[t, (p - start) * GROUP :]
                        for m in range(wide):
                            s = row[m] + (bias[begin + m] if biased else y.dtype.type(0))
                            out[m] = s if not rectified or s > 0 else slope * s


@loop("padded.shape[0] * padded.shape[1]")
def pad(first, last, x, padded, top, left):
    """padded (N, H', W'·C) = x (N, H, W·C) between zeros. left: in numbers."""
    for i in range(first, last):
        image, row = i // padded.shape[1], i % padded.shape[1] - top
        if row < 0 or row >= x.shape[1]:
            padded[image, row + top] = 0
            continue
        width = x.shape[2]
        padded[image, row + top, :left] = 0
        for k in range(width):  # the assignment of a slice takes Numba a second to compile
            padded[image, row + top, left + k] = x[image, row, k]
        padded[image, row + top, left + width :] = 0


@body
def _gradient(first, last, x, dy, shift, channel, channels, totals, edge, rows, steps, step, add):
    images, outputs, stride = dy.shape
    chunks, groups, tiles = totals.shape[:3]
    tasks, size = groups * tiles, x.shape[1] * x.shape[2]
    source, factors, total = x.ctypes.data + shift * 4, dy.ctypes.data + channel * 4, totals.ctypes.data
    row, pixel, final = rows.ctypes.data, steps.ctypes.data, edge.ctypes.data
    for chunk in range(first // tasks, (last - 1) // tasks + 1):
        begin, end, done = chunk * images // chunks, (chunk + 1) * images // chunks, chunk * tasks
        begin_task, end_task = max(first, done) - done, min(last - done, tasks)
        for image in range(begin, end, step):
            for start in range(0, outputs, BLOCK):
                stop = min(outputs, start + BLOCK)
                for task in range(begin_task, end_task):
                    group, where = task // tiles * GROUP, row + task % tiles * ROWS * 8
                    sums, wide = total + (done + task) * ROWS * GROUP * 4, channels - group
                    for i in range(image, min(end, image + step)):
                        # Vectors of the very last pixel would end behind the array.
                        cut, more = i == images - 1 and stop == outputs, add or start > 0 or i > begin
                        images_from = source + i * size * 4
                        gradients = factors + ((i * outputs + start) * stride + group) * 4
                        count = stop - start - cut
                        _add(images_from, where, pixel + start * 8, gradients, stride, sums, count, more, wide)
                        if cut:
                            last_pixel = pixel + (stop - 1) * 8
                            _add(images_from, where, last_pixel, final + group * 4, 0, sums, 1, True, wide)


@kernel
def gradient(x, dy, shift, channel, channels, totals, edge, rows, steps, step, add):
    """totals (chunks, groups, tiles, ROWS·GROUP) = [totals +] the sums over each chunk's images of dy (N, P, M) times
    x (N, H, W·C), which includes its pad.

    shift: of the first channel in x; channel, channels: the first in dy, and how many. steps (P): the offset of each
    output's window in an image; rows (tiles·ROWS): of each position from there; step: images that a tile sums at a
    time. Workspace: edge (groups·GROUP).
    """
    for k in range(channels):
        edge[k] = dy[-1, -1, channel + k]
    tasks = totals.shape[0] * totals.shape[1] * totals.shape[2]
    launch(_gradient, tasks, (x, dy, shift, channel, channels, totals, edge, rows, steps, step, add))


@loop("dw.shape[0]")
def join(first, last, totals, order, dw, add):
    """dw (M, K) = [dw +] the sum of the chunks of totals. order (K): the column of each position."""
    for m in range(first, last):
        group, lane = m // GROUP, m % GROUP
        for i in range(order.size):
            total = totals.dtype.type(0)
            for chunk in range(totals.shape[0]):
                total += totals[chunk, group, i // ROWS, i % ROWS * GROUP + lane]
            dw[m, order[i]] = dw[m, order[i]] + total if add else total
