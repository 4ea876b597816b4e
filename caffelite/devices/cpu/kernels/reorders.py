"""Weights (O, I·P), P the taps of a window, in and from orders that oneDNN multiplies. A pair is a word of two
bfloat16 numbers, the first in its low half. Numbers are turned in tiles that stay in the first-level cache, and rows of
memory are read and written some cache lines at a time: one by one they would wait for memory."""

import numpy as np

from .panels import half
from .parallel import loop
from .settings import kernel

CHANNELS = 64  # about as many pairs, of all taps, are turned at a time
BLOCK = 16  # channels of a block of gradients
BLOCKS = 4  # that are turned at a time


@kernel
def _pair(a, b):
    return np.uint32(half(a)) | (np.uint32(half(b)) << np.uint32(16))


@loop("words.shape[0]", distinct=True)
def pack_outputs(first, last, w, packed, words):
    """packed (O / N, P, I / 2, N) of pairs of neighboring inputs; zeros behind the last output. words (threads, N,
    numbers of a tile): workspace."""
    blocks, taps, pairs, lanes = packed.shape
    chunk = words.shape[2] // (2 * taps)
    chunks = -(-pairs // chunk)
    for t in range(first, last):
        rows = words[t]
        for task in range(t * blocks * chunks // words.shape[0], (t + 1) * blocks * chunks // words.shape[0]):
            block, begin = task // chunks, task % chunks * chunk
            count, present = min(pairs - begin, chunk), min(lanes, w.shape[0] - block * lanes)
            for o in range(present):
                row, out = w[block * lanes + o, 2 * begin * taps : 2 * (begin + count) * taps], rows[o]
                for k in range(row.size - taps):  # also those of odd inputs, which nobody reads: one vector loop
                    out[k] = _pair(row[k], row[k + taps])
            for j in range(count):
                for p in range(taps):
                    out, k = packed[block, p, begin + j], 2 * j * taps + p
                    for o in range(present):
                        out[o] = rows[o, k]
                    for o in range(present, lanes):
                        out[o] = 0


@loop("words.shape[0]", distinct=True)
def pack_inputs(first, last, w, packed, words):
    """packed (I / N, P, O / 2, N) of pairs of neighboring outputs; zeros behind the last input. words (threads, I·P):
    workspace."""
    blocks, taps, pairs, lanes = packed.shape
    inputs = w.shape[1] // taps
    for t in range(first, last):
        mine = words[t]
        for j in range(t * pairs // words.shape[0], (t + 1) * pairs // words.shape[0]):
            a, b = w[2 * j], w[2 * j + 1]
            for k in range(mine.size):
                mine[k] = _pair(a[k], b[k])
            for block in range(blocks):
                present = min(lanes, inputs - block * lanes)
                for p in range(taps):
                    out = packed[block, p, j]
                    for i in range(present):
                        out[i] = mine[(block * lanes + i) * taps + p]
                    for i in range(present, lanes):
                        out[i] = 0


@loop("rows.shape[0]", distinct=True)
def unpack(first, last, dw, blocks, rows, add):
    """dw (O, I·P) = [dw +] blocks (O / BLOCK, I / BLOCK, P, BLOCK inputs, BLOCK outputs). rows (threads, BLOCK, numbers
    of a tile): workspace."""
    outputs, inputs, taps = blocks.shape[:3]
    chunks = -(-inputs // BLOCKS)
    for t in range(first, last):
        tile = rows[t]
        for task in range(t * outputs * chunks // rows.shape[0], (t + 1) * outputs * chunks // rows.shape[0]):
            block, begin = task // chunks, task % chunks * BLOCKS
            count = min(inputs - begin, BLOCKS)
            for b in range(count):
                for p in range(taps):
                    for i in range(BLOCK):
                        line, k = blocks[block, begin + b, p, i], (b * BLOCK + i) * taps + p
                        for o in range(BLOCK):
                            tile[o, k] = line[o]
            width, at = count * BLOCK * taps, begin * BLOCK * taps
            for o in range(BLOCK):
                row, mine = dw[block * BLOCK + o, at : at + width], tile[o]
                if add:
                    for k in range(width):
                        row[k] += mine[k]
                else:
                    for k in range(width):
                        row[k] = mine[k]
