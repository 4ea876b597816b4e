"""Convolutions of channels_last images as matrix products of columns, with weights that are packed once.

A task multiplies blocks of pixels. The columns of a block (for a 1×1 kernel the images themselves) stay in a core's
second-level cache, a panel of weights in its first-level one. Bias and slopes are applied to each block of products.
"""

from numba import njit, prange

from .settings import PARALLEL, SERIAL
from .vectors import BYTES, LANES, product

ROWS = {1: 12, 2: 12, 3: 8, 4: 6}  # pixels of a tile by its vectors of outputs: as many as the registers hold
PIXELS = 24  # a multiple of all ROWS: blocks are multiples of it
DEPTH = 128  # factors that a product sums before it goes on to the next rows
_product1, _product2, _product3, _product4 = (product(ROWS[vectors], vectors) for vectors in (1, 2, 3, 4))
_ROWS1, _ROWS2, _ROWS3, _ROWS4 = (ROWS[vectors] for vectors in (1, 2, 3, 4))


@njit(**SERIAL)
def _multiply(a, row, b, c, rows, depth, vectors):
    """c (rows, vectors·LANES) = a (rows, depth), of rows ``row`` bytes apart, times b (depth, vectors·LANES)."""
    width = vectors * BYTES
    for k in range(0, depth, DEPTH):
        count, left, right = min(DEPTH, depth - k), a + k * 4, b + k * width
        if vectors == 4:
            for r in range(0, rows, _ROWS4):
                _product4(left + r * row, row, 4, right, width, c + r * width, width, count, k > 0)
        elif vectors == 3:
            for r in range(0, rows, _ROWS3):
                _product3(left + r * row, row, 4, right, width, c + r * width, width, count, k > 0)
        elif vectors == 2:
            for r in range(0, rows, _ROWS2):
                _product2(left + r * row, row, 4, right, width, c + r * width, width, count, k > 0)
        else:
            for r in range(0, rows, _ROWS1):
                _product1(left + r * row, row, 4, right, width, c + r * width, width, count, k > 0)


@njit(**SERIAL)
def pack(w, starts, packed):
    """packed: for each panel a matrix (kh·kw·C, width) of the weights w (M, C, kh, kw), zeros behind the last output.

    starts (panels + 1): the first vector of each panel.
    """
    outputs, channels, high, wide = w.shape
    at = 0
    for j in range(starts.size - 1):
        first, width = starts[j] * LANES, (starts[j + 1] - starts[j]) * LANES
        for i in range(high):
            for l in range(wide):  # noqa: E741
                for c in range(channels):
                    for m in range(width):
                        packed[at + m] = w[first + m, c, i, l] if first + m < outputs else 0
                    at += width


@njit(**SERIAL)
def _copy(source, target):
    for i in range(target.size):
        target[i] = source[i]


@njit(**SERIAL)
def _gather(x, outputs, window, first, count, columns):
    """columns (count, kh·kw·C) of the output pixels from ``first`` on. outputs: (OH, OW)."""
    kh, kw, sh, sw, ph, pw, dh, dw = window
    (high, wide), (height, width, channels) = outputs, x.shape[1:]
    together = kw * channels if dw == 1 else 0
    for p in range(count):
        image, rest = (first + p) // (high * wide), (first + p) % (high * wide)
        top, left, row = rest // wide * sh - ph, rest % wide * sw - pw, columns[p]
        for i in range(kh):
            h, at = top + i * dh, i * kw * channels
            if not 0 <= h < height:
                row[at : at + kw * channels] = 0
            elif together and left >= 0 and left + kw <= width:
                pixels = x[image, h].reshape(-1)
                _copy(pixels[left * channels : left * channels + together], row[at : at + together])
            else:
                for j in range(kw):
                    w, place = left + j * dw, at + j * channels
                    if 0 <= w < width:
                        _copy(x[image, h, w], row[place : place + channels])
                    else:
                        row[place : place + channels] = 0


@njit(**SERIAL)
def _finish(products, bias, slopes, y):
    for m in range(y.size):
        v = products[m] + bias[m]
        y[m] = v if v > 0 else slopes[m] * v


@njit(**SERIAL)
def convolve_blocks(x, packed, starts, bias, slopes, y, outputs, window, block, columns, products, first, last):
    """The blocks ``first`` to ``last`` of ``convolve``."""
    pixels, total, channels = columns.shape[1], y.shape[0], x.shape[3]
    plain = window == (1, 1, 1, 1, 0, 0, 1, 1)
    for b in range(first, last):
        begin, count = b * block, min(block, total - b * block)
        rows = -(-count // PIXELS) * PIXELS
        if plain and rows == count:
            left = x.ctypes.data + begin * channels * 4
        else:
            _gather(x, outputs, window, begin, count, columns)
            left = columns.ctypes.data
        right = packed.ctypes.data
        for j in range(starts.size - 1):
            vectors = starts[j + 1] - starts[j]
            width = vectors * LANES
            _multiply(left, pixels * 4, right, products.ctypes.data, rows, pixels, vectors)
            right += pixels * width * 4
            low, high = starts[j] * LANES, min(y.shape[1], starts[j + 1] * LANES)
            for p in range(count):
                found = products[p * width : p * width + high - low]
                _finish(found, bias[low:high], slopes[low:high], y[begin + p, low:high])


@njit(**PARALLEL)
def convolve(x, packed, starts, bias, slopes, y, outputs, window, block, columns, products):
    """y (N·OH·OW, M) = the convolution of x (N, H, W, C) + bias (M), what is not positive times slopes (M).

    packed, starts: see ``pack``. outputs: (OH, OW); window: (kh, kw, sh, sw, ph, pw, dh, dw). block: pixels that are
    multiplied at a time, a multiple of PIXELS. Workspace of each task: columns (tasks, block, kh·kw·C), products
    (tasks, block·4·LANES).
    """
    tasks, blocks = columns.shape[0], -(-y.shape[0] // block)
    for t in prange(tasks):
        first, last = t * blocks // tasks, (t + 1) * blocks // tasks
        convolve_blocks(
            x, packed, starts, bias, slopes, y, outputs, window, block, columns[t], products[t], first, last
        )


@njit(**SERIAL)
def convolve_alone(x, packed, starts, bias, slopes, y, outputs, window, block, columns, products):
    """``convolve`` on the calling thread."""
    blocks = -(-y.shape[0] // block)
    convolve_blocks(x, packed, starts, bias, slopes, y, outputs, window, block, columns[0], products[0], 0, blocks)
