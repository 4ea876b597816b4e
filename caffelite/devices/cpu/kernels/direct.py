"""Direct convolution in channels_last layout, without columns: outputs of few channels, and weight gradients.

A tile is some rows times two vectors of output channels, or one. It stays in registers while the kernel adds up
products of a number of x with a vector. In the forward pass a row is a pixel and the sum is over the C·kh·kw positions
of the window, in Caffe's order; in the gradient a row is a position, and the sum is over pixels.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...algorithms import LANES
from ...processor import has_registers
from .parallel import body, launch, loop
from .settings import kernel
from .vectors import REAL, VECTOR, WORD, Vectors, broadcast, integer, splat

BYTES = 4 * LANES  # of a vector
ROWS = 8 if has_registers() else 6  # of a tile: with more, the compiler keeps some sums in memory
GROUP = 2 * LANES  # channels in a tile
BLOCK = 256  # products summed before they join the total, as BLAS does it: longer sums round worse
PIXELS = 64  # of an image that a gradient's tiles sum in turn, so that these stay in a first-level cache


def _opaque(builder, value):
    """The same word, of which LLVM knows nothing: it does not unroll a loop that counts by it. Two iterations at a time
    would need more registers than there are."""
    asm = ir.InlineAsm(ir.FunctionType(WORD, [WORD]), "", "=r,0")
    return builder.call(asm, [value])


def _tile(vectors: int):
    """``tile(x, rows, steps, w, stride, y, count, add)``: y (ROWS, GROUP) = [y +] Σ x[rows + steps] · w, all addresses.
    stride: numbers from a row of w to the next. count: of steps, at least 1."""
    cells = [(r, v) for r in range(ROWS) for v in range(vectors)]

    @intrinsic
    def tile(_context, x, rows, steps, w, stride, y, count, add):
        def codegen(context, builder, _signature, arguments):
            x, rows, steps, w, stride, y, count, add = arguments
            lanes, size = Vectors(builder, None), integer(4)

            def word(address):
                return builder.load(builder.inttoptr(address, WORD.as_pointer()))

            starts = [builder.add(x, builder.mul(word(builder.add(rows, integer(8 * r))), size)) for r in range(ROWS)]
            last, row = builder.add(steps, builder.mul(count, integer(8))), builder.mul(stride, size)
            before, function = builder.basic_block, builder.function
            body, end = (function.append_basic_block(name) for name in ("body", "end"))
            builder.branch(body)
            builder.position_at_end(body)

            def variable(kind, start):
                phi = builder.phi(kind)
                phi.add_incoming(start, before)
                return phi

            at_step, at_w = variable(WORD, steps), variable(WORD, w)
            sums = {cell: variable(VECTOR, splat(VECTOR, 0.0)) for cell in cells}
            factors = [lanes.load(builder.add(at_w, integer(BYTES * v))) for v in range(vectors)]
            step, totals = builder.mul(word(at_step), size), {}
            for r in range(ROWS):
                address = builder.inttoptr(builder.add(starts[r], step), REAL.as_pointer())
                value = broadcast(builder, builder.load(address, align=4), VECTOR)
                totals |= {(r, v): lanes.fma(value, factors[v], sums[r, v]) for v in range(vectors)}
            next_step = _opaque(builder, builder.add(at_step, integer(8)))
            moved = [(at_step, next_step), (at_w, builder.add(at_w, row))]
            for phi, value in [*moved, *((sums[cell], totals[cell]) for cell in cells)]:
                phi.add_incoming(value, body)
            builder.cbranch(builder.icmp_unsigned("<", next_step, last), body, end)
            builder.position_at_end(end)
            for r, v in cells:
                target = builder.add(y, integer(4 * GROUP * r + BYTES * v))
                present = builder.select(add, lanes.load(target), splat(VECTOR, 0.0))
                lanes.store(builder.fadd(present, totals[r, v]), target)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7, types.boolean), codegen

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
            for start in range(0, outputs, PIXELS):
                stop = min(outputs, start + PIXELS)
                for task in range(begin_task, end_task):
                    group, where = task // tiles * GROUP, row + task % tiles * ROWS * 8
                    sums, wide = total + (done + task) * ROWS * GROUP * 4, channels - group
                    for i in range(image, min(end, image + step)):
                        # Vectors of the very last pixel would end behind the array.
                        cut, more = i == images - 1 and stop == outputs, add or start > 0 or i > begin
                        images_from = source + i * size * 4
                        gradients = factors + ((i * outputs + start) * stride + group) * 4
                        count = stop - start - cut
                        if count:
                            _add(images_from, where, pixel + start * 8, gradients, stride, sums, count, more, wide)
                        if cut:
                            more, last_pixel = more or count > 0, pixel + (stop - 1) * 8
                            _add(images_from, where, last_pixel, final + group * 4, 0, sums, 1, more, wide)


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
