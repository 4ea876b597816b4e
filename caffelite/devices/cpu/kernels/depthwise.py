"""Depthwise 3×3 convolutions of channels_last images, of stride 1 or 2.

A task is some rows of outputs. Pixels are read and written by tables of addresses: one outside the image has the
address of zeros, or of numbers that nobody reads, so borders need no code of their own.
"""

import numpy as np

from .parallel import body, launch, loop
from .settings import kernel
from .taps import BLOCK, SIDE, block, block_gradient, columns, pixel
from .vectors import copy

TABLE = SIDE * columns(2) + BLOCK  # addresses that a task needs
_COLUMNS1, _COLUMNS2 = columns(1), columns(2)
_block1, _block2 = block(1), block(2)
_gradient1, _gradient2 = block_gradient(1), block_gradient(2)


@kernel
def pack(w, rotated, packed):
    """packed (9, width) = w (C, 9) with channels last; rotated: kernels turned by 180 degrees."""
    for q in range(SIDE * SIDE):
        for c in range(w.shape[0]):
            packed[q, c] = w[c, SIDE * SIDE - 1 - q] if rotated else w[c, q]


@kernel
def _fill_sources(table, image, top, left, wide, outside):
    """table (3·wide) = addresses of the pixels of ``image`` (H, W, C) from (top, left) on."""
    height, width, size = image.shape[0], image.shape[1], image.shape[2] * image.itemsize
    base = image.ctypes.data
    for i in range(SIDE):
        _fill_source(
            table[i * wide :], base + (top + i) * width * size, size, height, width, top + i, left, wide, outside
        )


@kernel
def _fill_source(table, row, size, height, width, h, left, wide, outside):
    """table (wide) = addresses of the pixels from ``left`` on of row ``h``, which begins at ``row``."""
    for j in range(wide):
        table[j] = row + (left + j) * size if 0 <= h < height and 0 <= left + j < width else outside


@kernel
def _move(table, step, height, top, wide):
    """Adds ``step`` to the addresses of a table (3·wide) of pixels from row ``top`` on, but to those outside."""
    for i in range(max(0, -top) * wide, min(SIDE, height - top) * wide):
        table[i] += step


@kernel
def _load_rows(image, top, pitch, loaded, ring):
    """Copies the rows from ``top`` to ``top`` + 2 of ``image`` (H, W, C) into the three of ``ring``, row h to h mod 3,
    but those that are there. loaded (3): which rows those of the ring are."""
    for h in range(max(0, top), min(image.shape[0], top + SIDE)):
        if loaded[h % SIDE] != h:
            loaded[h % SIDE], start = h, h % SIDE * image.shape[1] * pitch
            for w in range(image.shape[1]):
                target = ring.ctypes.data + (start + w * pitch) * 4
                copy(image.ctypes.data + (h * image.shape[1] + w) * image.shape[2] * 4, target, image.shape[2])


@kernel
def convolve_padded_rows(x, packed, bias, slope, y, pad, stride, unused, table, zeros, ring, first, last):
    """``convolve_rows`` of images with a multiple of 512 channels. Their pixels share few sets of the first-level cache
    so that it takes three times as long; with rows copied to a ``ring`` of three, where pixels are a vector farther
    apart, it does not. ring (3·W·pitch)."""
    height, width, size, pitch = y.shape[1], y.shape[2], y.shape[3] * 4, ring.size // (SIDE * x.shape[2])
    wide = _COLUMNS1 if stride == 1 else _COLUMNS2
    source, target, loaded = table[: SIDE * wide], table[TABLE - BLOCK :], np.full(SIDE, -1)
    for r in range(first, last):
        image, top = r // height, r % height * stride - pad[0]
        if r == first or r % height == 0:
            loaded[:] = -1
        _load_rows(x[image], top, pitch, loaded, ring)
        for start in range(0, width, BLOCK):
            left = min(start, max(0, width - BLOCK))
            column = left * stride - pad[1]
            for h in range(top, top + SIDE):
                row = ring.ctypes.data + h % SIDE * x.shape[2] * pitch * 4
                where = x.shape[1], x.shape[2], h, column, wide, zeros.ctypes.data
                _fill_source(source[(h - top) * wide :], row, pitch * 4, *where)
            _fill_row(target, y.ctypes.data + (r * width + left) * size, size, width - left, unused.ctypes.data)
            addresses = source.ctypes.data, target.ctypes.data, packed.ctypes.data, packed.shape[1] * 4
            if stride == 1:
                _block1(*addresses, bias.ctypes.data, slope, y.shape[3], np.float32(0))
            else:
                _block2(*addresses, bias.ctypes.data, slope, y.shape[3], np.float32(0))


@kernel
def _fill_row(table, base, size, count, outside):
    for p in range(BLOCK):
        table[p] = base + p * size if p < count else outside


@kernel
def convolve_rows(x, packed, bias, slope, y, pad, stride, unused, table, zeros, first, last):
    """The rows ``first`` to ``last`` of ``convolve``."""
    height, width, channels, size = y.shape[1], y.shape[2], y.shape[3], y.shape[3] * y.itemsize
    wide = _COLUMNS1 if stride == 1 else _COLUMNS2
    source, target = table[: SIDE * wide], table[TABLE - BLOCK :]
    for r in range(first, last):
        image, top = r // height, r % height
        inner = 0  # blocks in a row without pixels outside of the image's columns: the next one is that far behind
        for start in range(0, width, BLOCK):
            left = min(start, max(0, width - BLOCK))
            row, column = top * stride - pad[0], left * stride - pad[1]
            base = y.ctypes.data + (r * width + left) * size
            inner = inner + 1 if column >= 0 and column + wide <= x.shape[2] and left == start else 0
            if inner > 1:
                _move(source, BLOCK * stride * size, x.shape[1], row, wide)
                target += BLOCK * size
            else:
                _fill_sources(source, x[image], row, column, wide, zeros.ctypes.data)
                _fill_row(target, base, size, width - left, unused.ctypes.data)
            addresses = source.ctypes.data, target.ctypes.data, packed.ctypes.data, packed.shape[1] * 4
            if stride == 1:
                _block1(*addresses, bias.ctypes.data, slope, channels, x.dtype.type(0))
            else:
                _block2(*addresses, bias.ctypes.data, slope, channels, x.dtype.type(0))


@loop("tables.shape[0]")
def convolve(begin, end, x, packed, bias, slope, y, pad, stride, unused, tables, zeros):
    """y (N, OH, OW, C) = the convolution of x (N, H, W, C) + bias (C), what is not positive times slope.

    packed (9, width): see ``pack``. pad (2): rows above and columns left of the images. zeros (C). Workspace: unused
    (tasks, C), tables (tasks, TABLE).
    """
    rows, tasks = y.shape[0] * y.shape[1], tables.shape[0]
    for t in range(begin, end):
        first, last = t * rows // tasks, (t + 1) * rows // tasks
        convolve_rows(x, packed, bias, slope, y, pad, stride, unused[t], tables[t], zeros, first, last)


@kernel
def convolve_alone(x, packed, bias, slope, y, pad, stride, unused, tables, zeros):
    """``convolve`` on the calling thread."""
    convolve_rows(x, packed, bias, slope, y, pad, stride, unused[0], tables[0], zeros, 0, y.shape[0] * y.shape[1])


@loop("tables.shape[0]")
def spread(first, last, dy, packed, dx, pad, stride, tables):
    """dx (N, H, W, C) = the data gradient of a convolution of any stride, from dy (N, OH, OW, C).

    packed (9, width): see ``pack``. Workspace: tables (tasks, 18 or more).
    """
    height, width, channels, size = dx.shape[1], dx.shape[2], dx.shape[3], dx.shape[3] * dx.itemsize
    rows, tasks = dx.shape[0] * height, tables.shape[0]
    for t in range(first, last):
        source, factors = tables[t, : SIDE * SIDE], tables[t, SIDE * SIDE : 2 * SIDE * SIDE]
        for r in range(t * rows // tasks, (t + 1) * rows // tasks):
            image, top = r // height, r % height + pad[0]
            for column in range(width):
                left, count = column + pad[1], 0
                for i in range(SIDE):
                    oh = (top - i) // stride
                    if top < i or (top - i) % stride or oh >= dy.shape[1]:
                        continue
                    for j in range(SIDE):
                        ow = (left - j) // stride
                        if left < j or (left - j) % stride or ow >= dy.shape[2]:
                            continue
                        source[count] = dy.ctypes.data + ((image * dy.shape[1] + oh) * dy.shape[2] + ow) * size
                        factors[count] = packed.ctypes.data + (i * SIDE + j) * packed.shape[1] * 4
                        count += 1
                target = dx.ctypes.data + (r * width + column) * size
                pixel(source.ctypes.data, factors.ctypes.data, count, target, channels, dx.dtype.type(0))


@body
def _sum_parts(first, last, x, dy, pad, stride, partial, tables, zeros):
    height, width, channels, size = dy.shape[1], dy.shape[2], dy.shape[3], dy.shape[3] * dy.itemsize
    rows, chunks, wide = dy.shape[0] * height, partial.shape[0], _COLUMNS1 if stride == 1 else _COLUMNS2
    for t in range(first, last):
        sums, source, gradients = partial[t], tables[t, : SIDE * wide], tables[t, TABLE - BLOCK :]
        sums[:] = 0
        for r in range(t * rows // chunks, (t + 1) * rows // chunks):
            image, top = r // height, r % height
            for left in range(0, width, BLOCK):
                row, column = top * stride - pad[0], left * stride - pad[1]
                _fill_sources(source, x[image], row, column, wide, zeros.ctypes.data)
                base = dy.ctypes.data + (r * width + left) * size
                _fill_row(gradients, base, size, width - left, zeros.ctypes.data)
                addresses = source.ctypes.data, gradients.ctypes.data, sums.ctypes.data, sums.shape[1] * 4
                if stride == 1:
                    _gradient1(*addresses, channels, x.dtype.type(0))
                else:
                    _gradient2(*addresses, channels, x.dtype.type(0))


@body
def _join_parts(first, last, partial, dw, add):
    for c in range(first, last):
        for q in range(SIDE * SIDE):
            total = 0.0
            for t in range(partial.shape[0]):
                total += partial[t, q, c]
            dw[c, q] = np.float32(total) + (dw[c, q] if add else np.float32(0))


@kernel
def weight_gradient(x, dy, dw, add, pad, stride, partial, tables, zeros):
    """dw (C, 9) = [dw +] the weight gradient from x (N, H, W, C) and dy (N, OH, OW, C).

    Workspace: partial (chunks, 9, width), whose number of chunks decides the order of the sum; tables (chunks, TABLE).
    """
    launch(_sum_parts, partial.shape[0], (x, dy, pad, stride, partial, tables, zeros))
    launch(_join_parts, dw.shape[0], (partial, dw, add))
