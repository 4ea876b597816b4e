"""Weights (O, I·P), P the taps of a window, in and from orders that oneDNN multiplies. A pair is a word of two
bfloat16 numbers, the first in its low half. Tiles that stay in the first-level cache are transposed, and rows of memory
are read and written some cache lines at a time: one by one they would wait for memory."""

import numpy as np

from .panels import half
from .parallel import loop
from .settings import kernel
from .transposition import transpose

CHANNELS = 64  # about as many pairs, of all taps, are transposed at a time
ROWS = 4  # of pairs of outputs, whose inputs are packed together
BLOCK = 16  # channels of a block of gradients
BLOCKS = 4  # that are transposed at a time


@kernel
def _pair(a, b):
    return np.uint32(half(a)) | (np.uint32(half(b)) << np.uint32(16))


@kernel
def _pairs(row, taps, out):
    """The words of inputs 2j and 2j + 1 of a row (I, P), at 2j·P of out where P is not 1; numbers that nobody reads
    between them, as one loop of vectors is faster."""
    if taps == 1:
        for j in range(row.size // 2):
            out[j] = _pair(row[2 * j], row[2 * j + 1])
    else:
        for k in range(row.size - taps):
            out[k] = _pair(row[k], row[k + taps])


@loop("words.shape[0]", distinct=True)
def pack_outputs(first, last, w, packed, words):
    """packed (O / N, P, I / 2, N) of pairs of neighboring inputs; zeros behind the last output. words (threads, N,
    numbers of a tile): workspace."""
    blocks, taps, pairs, lanes = packed.shape
    chunk = words.shape[2] // (2 * taps)
    chunks, row, step = -(-pairs // chunk), 4 * words.shape[2], 4 * lanes
    for t in range(first, last):
        rows, source = words[t], words[t].ctypes.data
        for task in range(t * blocks * chunks // words.shape[0], (t + 1) * blocks * chunks // words.shape[0]):
            block, begin = task // chunks, task % chunks * chunk
            count, present = min(pairs - begin, chunk), min(lanes, w.shape[0] - block * lanes)
            for o in range(present):
                _pairs(w[block * lanes + o, 2 * begin * taps : 2 * (begin + count) * taps], taps, rows[o])
            for o in range(present, lanes):
                rows[o] = 0
            target = packed[block, 0, begin:].ctypes.data
            if taps == 1:
                transpose(source, row, target, step, lanes, count, False)
            else:
                for j in range(count):
                    transpose(source + 8 * j * taps, row, target + j * step, pairs * step, lanes, taps, False)


@loop("words.shape[0]", distinct=True)
def pack_inputs(first, last, w, packed, words):
    """packed (I / N, P, O / 2, N) of pairs of neighboring outputs; zeros behind the last input. words (threads, R,
    numbers of padded inputs): workspace for R pairs."""
    blocks, taps, pairs, lanes = packed.shape
    chunk, size = words.shape[1], lanes * taps
    chunks = -(-pairs // chunk)
    for t in range(first, last):
        for task in range(t * chunks // words.shape[0], (t + 1) * chunks // words.shape[0]):
            begin = task * chunk
            count = min(pairs - begin, chunk)
            for j in range(count):
                a, b, mine = w[2 * (begin + j)], w[2 * (begin + j) + 1], words[t, j]
                for k in range(a.size):
                    mine[k] = _pair(a[k], b[k])
                mine[a.size :] = 0
            for block in range(blocks):
                for j in range(count):
                    mine, out = words[t, j, block * size : (block + 1) * size], packed[block, :, begin + j]
                    if taps == 1:
                        out[0] = mine
                    else:
                        target = out.ctypes.data
                        transpose(mine.ctypes.data, 4 * taps, target, 4 * pairs * lanes, lanes, taps, False)


@loop("rows.shape[0]", distinct=True)
def unpack(first, last, dw, blocks, rows, add):
    """dw (O, I·P) = [dw +] blocks (O / BLOCK, I / BLOCK, P, BLOCK inputs, BLOCK outputs). rows (threads, BLOCK, numbers
    of a tile): workspace."""
    outputs, inputs, taps = blocks.shape[:3]
    chunks, step, line = -(-inputs // BLOCKS), 4 * rows.shape[2], 4 * BLOCK
    for t in range(first, last):
        tile, target = rows[t], rows[t].ctypes.data
        for task in range(t * outputs * chunks // rows.shape[0], (t + 1) * outputs * chunks // rows.shape[0]):
            block, begin = task // chunks, task % chunks * BLOCKS
            count = min(inputs - begin, BLOCKS)
            source = blocks[block, begin].ctypes.data
            if taps == 1:
                transpose(source, line, target, step, count * BLOCK, BLOCK, False)
            else:
                for i in range(count * BLOCK):
                    at = source + (i // BLOCK * taps * BLOCK + i % BLOCK) * line
                    transpose(at, BLOCK * line, target + 4 * i * taps, step, taps, BLOCK, False)
            width, at = count * BLOCK * taps, begin * BLOCK * taps
            for o in range(BLOCK):
                row, mine = dw[block * BLOCK + o, at : at + width], tile[o]
                if add:
                    for k in range(width):
                        row[k] += mine[k]
                else:
                    for k in range(width):
                        row[k] = mine[k]
