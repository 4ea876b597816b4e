"""Convolutions of channels_last images as matrix products of columns, with weights that are packed once.

A task multiplies blocks of pixels. The columns of a block (for a 1×1 kernel the images themselves) stay in a core's
second-level cache; for few channels those of neighboring pixels are read from the same rows. Bias and slopes are
applied in registers.
"""

from ...algorithms import LANES, PANEL
from .parallel import loop
from .settings import kernel
from .tiles import BYTES, tile
from .vectors import copy

# Pixels of a tile by its vectors of outputs: as many as the registers hold; 7 divides the sides of ImageNet's images.
ROWS = {1: 12, 2: 12, 3: 8, 4: 7} if PANEL == 4 else {1: 8, 2: 6}
_tile1, _tile2, _tile3, _tile4 = (tile(ROWS[min(vectors, PANEL)], min(vectors, PANEL)) for vectors in (1, 2, 3, 4))
_ROWS1, _ROWS2, _ROWS3, _ROWS4 = (ROWS[min(vectors, PANEL)] for vectors in (1, 2, 3, 4))


@kernel
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


@kernel
def _gather(x, outputs, window, first, count, columns):
    """columns (count, kh·kw·C) of the output pixels from ``first`` on. outputs: (OH, OW)."""
    kh, kw, sh, sw, ph, pw, dh, dw = window
    (high, wide), (height, width, channels) = outputs, x.shape[1:]
    image, rest = first // (high * wide), first % (high * wide)
    oh, ow, size = rest // wide, rest % wide, channels * 4
    target, base, taps = columns.ctypes.data, x.ctypes.data, columns.reshape(-1)
    for _ in range(count):
        top, left = oh * sh - ph, ow * sw - pw
        inside = left >= 0 and left + (kw - 1) * dw < width
        for i in range(kh):
            h = top + i * dh
            row = base + ((image * height + h) * width + left) * size
            if inside and dw == 1 and 0 <= h < height:
                copy(row, target, kw * channels)
                target += kw * size
                continue
            for j in range(kw):
                if 0 <= h < height and 0 <= left + j * dw < width:
                    copy(row + j * dw * size, target, channels)
                else:
                    start = (target - columns.ctypes.data) // 4
                    for c in range(start, start + channels):
                        taps[c] = 0
                target += size
        ow += 1
        if ow == wide:
            ow, oh = 0, oh + 1
            if oh == high:
                oh, image = 0, image + 1


@kernel
def _pad(x, image, top, pad, rows):
    """rows (count, length): those of an image from ``top`` on, with zeros on both sides and where it has no row."""
    height, width, channels = x.shape[1:]
    side = pad * channels
    for i in range(rows.shape[0]):
        if 0 <= top + i < height:
            rows[i, :side] = 0
            copy(x[image, top + i].ctypes.data, rows[i, side:].ctypes.data, width * channels)
            rows[i, side + width * channels :] = 0
        else:
            rows[i] = 0


@kernel
def _multiply(left, packed, starts, bias, slopes, y, begin, count, unused, panels):
    """``count`` pixels of y from ``begin`` on, the ``panels`` (first, last) of outputs. left: the address of their
    columns, the bytes from pixel to pixel, and their pieces as in ``tiles.tile``."""
    start, step, pieces, piece, length = left
    row, depth = y.shape[1] * 4, pieces * length
    right = packed.ctypes.data + starts[panels[0]] * depth * BYTES
    for j in range(panels[0], panels[1]):
        vectors, address = starts[j + 1] - starts[j], starts[j] * BYTES
        channels = min(y.shape[1], starts[j + 1] * LANES) - starts[j] * LANES
        after = unused.ctypes.data, bias.ctypes.data + address, slopes.ctypes.data + address, channels
        out = y.ctypes.data + begin * row + address
        if vectors == 4:
            for r in range(0, count, _ROWS4):
                _tile4(start + r * step, step, count - r, pieces, piece, length, right, out + r * row, row, *after)
        elif vectors == 3:
            for r in range(0, count, _ROWS3):
                _tile3(start + r * step, step, count - r, pieces, piece, length, right, out + r * row, row, *after)
        elif vectors == 2:
            for r in range(0, count, _ROWS2):
                _tile2(start + r * step, step, count - r, pieces, piece, length, right, out + r * row, row, *after)
        else:
            for r in range(0, count, _ROWS1):
                _tile1(start + r * step, step, count - r, pieces, piece, length, right, out + r * row, row, *after)
        right += depth * vectors * BYTES


@kernel
def convolve_blocks(
    x, packed, starts, bias, slopes, y, outputs, window, by_rows, block, columns, unused, blocks, panels
):
    """The ``blocks`` (first, last) of ``convolve``, of each the ``panels`` (first, last) of outputs."""
    depth, total, (high, wide), channels = columns.shape[1], y.shape[0], outputs, x.shape[3]
    kh, kw, sh, sw, ph, pw = window[:6]
    length = (x.shape[2] + 2 * pw) * channels
    plain, space = window == (1, 1, 1, 1, 0, 0, 1, 1), columns.ctypes.data
    for b in range(blocks[0], blocks[1]):
        begin, count = b * block, min(block, total - b * block)
        what = packed, starts, bias, slopes, y
        if by_rows:
            rows, end = columns.reshape(-1)[: kh * length].reshape(kh, length), begin + count
            while begin < end:
                line, ow = begin // wide, begin % wide
                run = min(wide - ow, end - begin)
                _pad(x, line // high, line % high * sh - ph, pw, rows)
                left = space + ow * sw * channels * 4, sw * channels * 4, kh, length * 4, kw * channels
                _multiply(left, *what, begin, run, unused, panels)
                begin += run
        elif plain:
            left = x.ctypes.data + begin * depth * 4, depth * 4, 1, 0, depth
            _multiply(left, *what, begin, count, unused, panels)
        else:
            _gather(x, outputs, window, begin, count, columns)
            _multiply((space, depth * 4, 1, 0, depth), *what, begin, count, unused, panels)


@loop("columns.shape[0]")
def convolve(begin, end, x, packed, starts, bias, slopes, y, outputs, window, by_rows, block, columns, unused):
    """y (N·OH·OW, M) = the convolution of x (N, H, W, C) + bias (M), what is not positive times slopes (M).

    packed, starts: see ``pack``. outputs: (OH, OW); window: (kh, kw, sh, sw, ph, pw, dh, dw). by_rows: columns are read
    from the images' rows, with zeros around them, where windows are not dilated. block: pixels that are multiplied at a
    time. Workspace of each task: columns (tasks, block or more, kh·kw·C), for kh rows too; unused (tasks, PANEL·LANES).
    """
    tasks, blocks, panels = columns.shape[0], -(-y.shape[0] // block), (0, starts.size - 1)
    for t in range(begin, end):
        share = t * blocks // tasks, (t + 1) * blocks // tasks
        convolve_blocks(
            x, packed, starts, bias, slopes, y, outputs, window, by_rows, block, columns[t], unused[t], share, panels
        )
