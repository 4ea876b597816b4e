"""Winograd's minimal filtering for windows of 3×3 and 5×5 of stride 1, on channels_last images.

F(m×m, r×r) computes a tile of m×m outputs from a×a inputs, a = m + r - 1, as Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A: a² products
instead of r²m² for a tile and a pair of channels. Over all channels these are a² matrix products, one for each
position.
Source: Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks".

Panels of weights, products and output gradients are of whole vectors; a channel in two of them is computed twice.

A kernel reads and writes the pixels of a tile by tables of addresses. A pixel outside the image has the address of
zeros, or of numbers that nobody reads, so tiles at the border need no code of their own.
"""

from ...algorithms import DEPTH, GROUP, PANEL, ROWS, ROWS_TURNED
from .cook_toom import Matrix, matrices
from .parallel import body, launch, loop
from .settings import kernel
from .transposition import transpose
from .winograd_vectors import BYTES, LANES, both_sides, product


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


_TILES = [matrices(*tile) for tile in ((2, 3), (4, 3), (4, 5))]  # of 4², 6² and 8² inputs
_input4, _input6, _input8 = (both_sides(inputs) for inputs, _, _ in _TILES)
_kernel4, _kernel6, _kernel8 = (both_sides(kernel, pack=True) for _, kernel, _ in _TILES)
_output4, _output6, _output8 = (both_sides(results, unpack=True, finish=True) for _, _, results in _TILES)
OUTPUTS, TAPS = 2, 3  # sides of the tiles of a weight gradient: larger ones round worse
_output_gradient4 = both_sides(_turned(_TILES[0][2]), pack=True)
_kernel_gradient4 = both_sides(_turned(_TILES[0][1]), unpack=True)
_product1, _product2, _product3, _product4 = (product(ROWS, min(vectors, PANEL)) for vectors in (1, 2, 3, 4))
_outer1, _outer2, _outer3, _outer4 = (product(ROWS_TURNED, min(vectors, PANEL)) for vectors in (1, 2, 3, 4))


@kernel
def _transform_inputs(side, source, target, channels):
    """Bᵀ d B of side² inputs d. source, target: tables with the addresses of the numbers of d and of the result."""
    if side == 8:
        _input8(source, target, channels)
    elif side == 6:
        _input6(source, target, channels)
    else:
        _input4(source, target, channels)


@kernel
def _transform_kernel(side, source, target, channels):
    """G g Gᵀ of a kernel."""
    if side == 8:
        _kernel8(source, target, channels)
    elif side == 6:
        _kernel6(source, target, channels)
    else:
        _kernel4(source, target, channels)


@kernel
def _finish_outputs(side, source, target, channels, bias, slope):
    """Aᵀ d A, the outputs of a tile, with bias and slope: see channels.both_sides."""
    if side == 8:
        _output8(source, target, channels, bias, slope)
    elif side == 6:
        _output6(source, target, channels, bias, slope)
    else:
        _output4(source, target, channels, bias, slope)


@kernel
def _six_rows(vectors, a, a_row, a_k, b, c, depth, add):
    """ROWS rows of c (·, vectors·LANES) = [c +] a b: see vectors.product."""
    width = vectors * BYTES
    if vectors == 4:
        _product4(a, a_row, a_k, b, width, c, width, depth, add)
    elif vectors == 3:
        _product3(a, a_row, a_k, b, width, c, width, depth, add)
    elif vectors == 2:
        _product2(a, a_row, a_k, b, width, c, width, depth, add)
    else:
        _product1(a, a_row, a_k, b, width, c, width, depth, add)


@kernel
def _four_rows(vectors, a, a_row, a_k, b, c, depth, add):
    width = vectors * BYTES
    if vectors == 4:
        _outer4(a, a_row, a_k, b, width, c, width, depth, add)
    elif vectors == 3:
        _outer3(a, a_row, a_k, b, width, c, width, depth, add)
    elif vectors == 2:
        _outer2(a, a_row, a_k, b, width, c, width, depth, add)
    else:
        _outer1(a, a_row, a_k, b, width, c, width, depth, add)


@kernel
def _multiply(a, row, b, c, rows, depth, vectors, add):
    """c (rows, vectors·LANES) = [c +] a (rows, depth), of rows ``row`` bytes apart, times b (depth, vectors·LANES)."""
    width = vectors * BYTES
    for k in range(0, depth, DEPTH):
        count, more = min(DEPTH, depth - k), add or k > 0
        for r in range(0, rows, ROWS):
            _six_rows(vectors, a + r * row + k * 4, row, 4, b + k * width, c + r * width, count, more)


@kernel
def _multiply_turned(a, row, channels, b, c, depth, vectors, add):
    """c (channels, vectors·LANES) = [c +] aᵀ b of a (depth, channels), of rows ``row`` bytes apart, and b (depth,
    vectors·LANES). channels: a multiple of ROWS_TURNED, more than that."""
    width = vectors * BYTES
    fours = -channels % ROWS // (ROWS - ROWS_TURNED)  # so that the others are a multiple of ROWS
    sixes = channels - fours * ROWS_TURNED
    for k in range(0, depth, DEPTH):
        count, left, right, more = min(DEPTH, depth - k), a + k * row, b + k * width, add or k > 0
        for r in range(0, sixes, ROWS):
            _six_rows(vectors, left + r * 4, 4, row, right, c + r * width, count, more)
        for r in range(sixes, channels, ROWS_TURNED):
            _four_rows(vectors, left + r * 4, 4, row, right, c + r * width, count, more)


@kernel
def _fill_table(table, image, channel, top, left, size, outside):
    """table (size²) = addresses of a channel of the pixels of a square of ``image`` (H, W, C) from (top, left) on."""
    height, width, channels = image.shape
    base = image.ctypes.data + channel * 4
    for i in range(size):
        for j in range(size):
            inside = 0 <= top + i < height and 0 <= left + j < width
            table[i * size + j] = base + ((top + i) * width + left + j) * channels * 4 if inside else outside


@kernel
def _fill_strided(table, base, stride):
    for i in range(table.size):
        table[i] = base + i * stride


@kernel
def _panel(array, starts, j, square, rows):
    """(address, pitch): of panel j in an array with a² matrices of ``rows`` rows for each panel, and from one of these
    matrices to the next. A vector separates them: pitches of powers of two would share few sets of a cache."""
    vectors = starts[j + 1] - starts[j]
    return array.ctypes.data + (starts[j] * rows + j) * square * BYTES, (rows * vectors + 1) * BYTES


@kernel
def _panel_channels(starts, j, channels):
    """How many of all channels panel j has."""
    return min(channels, starts[j + 1] * LANES) - starts[j] * LANES


@kernel
def _read_weights(w, rotated, first, start, buffer):
    """buffer (GROUP or fewer, r², width): the weights of input channels from ``first`` on, and of output channels from
    ``start`` on, output channels last."""
    members, taps, width = buffer.shape
    if rotated:  # a channel's taps from the last one on
        for i in range(members):
            source, last = w[first + i, start:].ctypes.data, buffer.ctypes.data + ((i + 1) * taps - 1) * width * 4
            transpose(source, taps * 4, last, -width * 4, width, taps, False)
    else:
        source = w.ctypes.data + (start * w.shape[1] + first) * taps * 4
        transpose(source, w.shape[1] * taps * 4, buffer.ctypes.data, width * 4, width, members * taps, False)


@kernel
def _rows(rough, members, taps, width):
    """Room for the weights of ``members`` channels."""
    return rough[: members * taps * width].reshape(members, taps, width)


@kernel
def _transform_members(w, rotated, starts, j, k, members, matrices, pitch, rough, table, outputs, size):
    """The weights of input channels k to k + members in panel j's a² matrices (C, width), ``pitch`` bytes apart."""
    width, taps, side = w.shape[1] if rotated else w.shape[0], size * size, outputs + size - 1
    source, target, channels = table[0], table[1], _panel_channels(starts, j, width)
    buffer, row = _rows(rough, members, taps, channels), (starts[j + 1] - starts[j]) * BYTES
    _read_weights(w, rotated, k, starts[j] * LANES, buffer)
    for i in range(members):
        _fill_strided(source[:taps], buffer[i].ctypes.data, channels * 4)
        _fill_strided(target[: side * side], matrices + (k + i) * row, pitch)
        _transform_kernel(side, source.ctypes.data, target.ctypes.data, channels)


@loop("tables.shape[0]")
def transform_weights(first, last, w, rotated, starts, packed, rough, tables, outputs, size):
    """packed: the weights w (M, C, r²) for ``convolve``: for each panel, a² matrices (C, width).

    rotated: of the convolution that computes the data gradient, from M channels to C, with kernels turned by 180
    degrees. starts (panels + 1): the first vector of each panel. Workspace: rough (threads, GROUP·r²·PANEL·LANES),
    tables (threads, 2, 64).
    """
    count, threads = w.shape[0] if rotated else w.shape[1], tables.shape[0]
    groups, square = -(-count // GROUP), (outputs + size - 1) ** 2
    tasks = groups * (starts.size - 1)
    for t in range(first, last):
        for task in range(t * tasks // threads, (t + 1) * tasks // threads):
            j, k = task // groups, task % groups * GROUP
            members, (matrices, pitch) = min(GROUP, count - k), _panel(packed, starts, j, square, count)
            _transform_members(w, rotated, starts, j, k, members, matrices, pitch, rough[t], tables[t], outputs, size)


@kernel
def _origin(tile, high, wide, outputs):
    """(image, row, column) of the first output of a tile."""
    image, rest = tile // (high * wide), tile % (high * wide)
    return image, rest // wide * outputs, rest % wide * outputs


@kernel
def _transform_tiles(x, y, group, channels, pad, outputs, size, first, count, begin, end, inputs, pitch, zeros, table):
    """The rows ``begin`` to ``end`` of the a² matrices (·, C) of the tiles from ``first`` on; zeros from row ``count``
    on. zeros: the address of C of them."""
    high, wide, side = -(-y.shape[1] // outputs), -(-y.shape[2] // outputs), outputs + size - 1
    source, target = table[0], table[1]
    for i in range(begin, end):
        if i < count:
            image, top, left = _origin(first + i, high, wide, outputs)
            _fill_table(source, x[image], group * channels, top - pad[0], left - pad[1], side, zeros)
        else:
            _fill_strided(source[: side * side], zeros, 0)
        _fill_strided(target[: side * side], inputs + i * channels * 4, pitch)
        _transform_inputs(side, source.ctypes.data, target.ctypes.data, channels)


@kernel
def _multiply_positions(inputs, channels, rows, weights, pitch, vectors, square, space, begin, depth):
    """Adds to ``space``, a² matrices (rows, width), the products of ``depth`` channels from ``begin`` on; weights: of
    these, in matrices ``pitch`` bytes apart."""
    matrix = rows * vectors * BYTES
    for p in range(square):
        left = inputs + p * (rows * channels + LANES) * 4 + begin * 4
        _multiply(left, channels * 4, weights + p * pitch, space + p * matrix, rows, depth, vectors, begin > 0)


@kernel
def _finish_panel(rows, starts, j, bias, slope, y, how, first, count, table, space):
    """The outputs of panel j of the tiles from ``first`` on. how: group, groups, m, r. space: the address of a²·rows·
    width products, then of as many numbers as a panel has for outputs that nobody reads."""
    group, groups, outputs, size = how
    high, wide, side = -(-y.shape[1] // outputs), -(-y.shape[2] // outputs), outputs + size - 1
    vectors, width, square = starts[j + 1] - starts[j], y.shape[3] // groups, side * side
    matrix, source, target = rows * vectors * BYTES, table[0], table[1]
    wanted, unused = _panel_channels(starts, j, width), space + square * matrix
    added, channel = bias.ctypes.data + starts[j] * BYTES, group * width + starts[j] * LANES
    for i in range(count):
        image, top, left = _origin(first + i, high, wide, outputs)
        _fill_strided(source[:square], space + i * vectors * BYTES, matrix)
        _fill_table(target, y[image], channel, top, left, outputs, unused)
        _finish_outputs(side, source.ctypes.data, target.ctypes.data, wanted, added, slope)


@kernel
def convolve_block(x, packed, starts, bias, slope, y, how, pad, block, space, table, b, panels):
    """Block ``b`` of ``convolve``, the ``panels`` (first, last) of outputs. how: group, groups, outputs, size. space
    and table: of one thread."""
    group, groups, outputs, size = how
    channels, square = x.shape[3] // groups, (outputs + size - 1) ** 2
    tiles = y.shape[0] * -(-y.shape[1] // outputs) * -(-y.shape[2] // outputs)
    zeros = space.ctypes.data
    inputs = zeros + channels * 4
    products = inputs + square * (block * channels + LANES) * 4
    space[:channels] = 0
    first, count = b * block, min(block, tiles - b * block)
    rows, where = -(-count // ROWS) * ROWS, (group, channels, pad, outputs, size, first, count)
    pitch = (rows * channels + LANES) * 4
    _transform_tiles(x, y, *where, 0, rows, inputs, pitch, zeros, table)
    for j in range(panels[0], panels[1]):
        weights, pitch = _panel(packed, starts, j, square, channels)
        vectors = starts[j + 1] - starts[j]
        _multiply_positions(inputs, channels, rows, weights, pitch, vectors, square, products, 0, channels)
        _finish_panel(rows, starts, j, bias, slope, y, how, first, count, table, products)


@loop("tables.shape[0]")
def convolve(begin, end, x, packed, starts, bias, slope, y, group, groups, pad, outputs, size, block, space, tables):
    """y (N, OH, OW, M·G) = the convolution of x (N, H, W, C·G) + bias (M), what is not positive times slope, for one of
    G groups of channels.

    packed, starts: as from ``transform_weights``. pad (2): rows above and columns left of the images. block: tiles that
    are transformed at a time, a multiple of ROWS. Workspace: space (threads, C + a²·(block·(C + PANEL·LANES) + LANES) +
    PANEL·LANES), tables (threads, 2, 64).
    """
    tiles, threads = y.shape[0] * -(-y.shape[1] // outputs) * -(-y.shape[2] // outputs), tables.shape[0]
    blocks, how, panels = -(-tiles // block), (group, groups, outputs, size), (0, starts.size - 1)
    for t in range(begin, end):
        for b in range(t * blocks // threads, (t + 1) * blocks // threads):
            convolve_block(x, packed, starts, bias, slope, y, how, pad, block, space[t], tables[t], b, panels)


@body
def _transform_inputs_of_all(begin, end, x, y, group, groups, pad, outputs, size, inputs, zeros, tables):
    channels, threads = x.shape[3] // groups, tables.shape[0]
    tiles = y.shape[0] * -(-y.shape[1] // outputs) * -(-y.shape[2] // outputs)
    rows, what = -(-tiles // ROWS) * ROWS, (group, channels, pad, outputs, size, 0, tiles)
    pitch = (rows * channels + LANES) * 4
    for t in range(begin, end):
        share = t * rows // threads, (t + 1) * rows // threads
        _transform_tiles(x, y, *what, *share, inputs.ctypes.data, pitch, zeros.ctypes.data, tables[t])


@body
def _convolve_panels(
    begin, end, w, rotated, starts, bias, slope, y, how, inputs, channels, tiles, depth, space, rough, tables
):
    outputs, size, threads = how[2], how[3], tables.shape[0]
    rows, square = -(-tiles // ROWS) * ROWS, (outputs + size - 1) ** 2
    for t in range(begin, end):
        weights = space[t].ctypes.data
        products = weights + square * (depth * PANEL * LANES + LANES) * 4
        for j in range(t * (starts.size - 1) // threads, (t + 1) * (starts.size - 1) // threads):
            vectors = starts[j + 1] - starts[j]
            for k in range(0, channels, depth):
                part = min(depth, channels - k)
                pitch = (part * vectors + 1) * BYTES
                for i in range(k, k + part, GROUP):
                    members = min(GROUP, k + part - i)
                    where = weights - k * vectors * BYTES, pitch, rough[t], tables[t], outputs, size
                    _transform_members(w, rotated, starts, j, i, members, *where)
                to = vectors, square, products, k, part
                _multiply_positions(inputs.ctypes.data, channels, rows, weights, pitch, *to)
            _finish_panel(rows, starts, j, bias, slope, y, how, 0, tiles, tables[t], products)


@kernel
def convolve_panels(
    x, w, rotated, starts, bias, slope, y, group, groups, pad, outputs, size, depth, inputs, space, rough, zeros, tables
):
    """``convolve`` with weights w that are transformed panel by panel where they are used, for images of few tiles:
    transformed weights of all panels would be larger than those of the images. depth: channels of a panel that are
    transformed at a time.

    zeros (C). Workspace: inputs (a²·(tiles·C + LANES)), tiles a multiple of ROWS; space (threads, a²·(depth + tiles)·
    PANEL·LANES + (a² + PANEL)·LANES); rough and tables as in ``transform_weights``.
    """
    where = x, y, group, groups, pad, outputs, size, inputs, zeros, tables
    launch(_transform_inputs_of_all, tables.shape[0], where)
    tiles = y.shape[0] * -(-y.shape[1] // outputs) * -(-y.shape[2] // outputs)
    how, sizes = (group, groups, outputs, size), (x.shape[3] // groups, tiles, depth, space, rough, tables)
    launch(_convolve_panels, tables.shape[0], (w, rotated, starts, bias, slope, y, how, inputs, *sizes))


@loop("tables.shape[0]")
def transform_images(begin, end, x, dy, starts, group, groups, pad, first, last, inputs, gradients, zeros, tables):
    """The factors of the weight gradient of one of G groups of channels, for tiles ``first`` to ``last`` of x (N, H, W,
    C·G) and dy (N, OH, OW, M·G).

    inputs of a² matrices (tiles, C + LANES), as rows a power of two apart would share few sets of a cache; gradients:
    for each panel, of a² matrices (tiles, width). zeros (max(C, M)).
    """
    channels, width, side = x.shape[3] // groups, dy.shape[3] // groups, OUTPUTS + TAPS - 1
    high, wide = -(-dy.shape[1] // OUTPUTS), -(-dy.shape[2] // OUTPUTS)
    square, threads, count, nothing = side * side, tables.shape[0], last - first, zeros.ctypes.data
    row = (channels + LANES) * 4
    for t in range(begin, end):
        source, target = tables[t, 0], tables[t, 1]
        for i in range(t * count // threads, (t + 1) * count // threads):
            image, top, left = _origin(first + i, high, wide, OUTPUTS)
            _fill_table(source, x[image], group * channels, top - pad[0], left - pad[1], side, nothing)
            _fill_strided(target[:square], inputs.ctypes.data + i * row, count * row)
            _input4(source.ctypes.data, target.ctypes.data, channels)
            for j in range(starts.size - 1):
                vectors = starts[j + 1] - starts[j]
                _fill_table(source, dy[image], group * width + starts[j] * LANES, top, left, OUTPUTS, nothing)
                address, pitch = _panel(gradients, starts, j, square, count)
                _fill_strided(target[:square], address + i * vectors * BYTES, pitch)
                _output_gradient4(source.ctypes.data, target.ctypes.data, _panel_channels(starts, j, width))


@loop("square * (starts.size - 1)")
def multiply_images(first, last, inputs, gradients, starts, channels, count, square, products, add):
    """products: for each panel, a² matrices (C, width), = [products +] the sum over tiles of inputs times gradients."""
    panels = starts.size - 1
    for t in range(first, last):
        p, j = t // panels, t % panels
        vectors = starts[j + 1] - starts[j]
        row = (channels + LANES) * 4
        left = inputs.ctypes.data + p * count * row
        right, right_pitch = _panel(gradients, starts, j, square, count)
        out, pitch = _panel(products, starts, j, square, channels)
        _multiply_turned(left, row, channels, right + p * right_pitch, out + p * pitch, count, vectors, add)


@loop("tables.shape[0]")
def finish_weights(begin, end, products, starts, dw, add, rough, tables):
    """dw (M, C, r²) = [dw +] the weight gradient from ``products``. Workspace:
    rough (threads, GROUP·r²·PANEL·LANES)."""
    width, channels = dw.shape[0], dw.shape[1]
    threads, taps, square = tables.shape[0], TAPS**2, (OUTPUTS + TAPS - 1) ** 2
    groups = -(-channels // GROUP)
    tasks = groups * (starts.size - 1)
    for t in range(begin, end):
        source, target = tables[t, 0], tables[t, 1]
        for task in range(t * tasks // threads, (t + 1) * tasks // threads):
            j, first = task // groups, task % groups * GROUP
            wanted, members = _panel_channels(starts, j, width), min(GROUP, channels - first)
            buffer = _rows(rough[t], members, taps, wanted)
            address, pitch = _panel(products, starts, j, square, channels)
            row = (starts[j + 1] - starts[j]) * BYTES
            for i in range(members):
                _fill_strided(source[:square], address + (first + i) * row, pitch)
                _fill_strided(target[:taps], buffer[i].ctypes.data, wanted * 4)
                _kernel_gradient4(source.ctypes.data, target.ctypes.data, wanted)
            out = dw.ctypes.data + (starts[j] * LANES * channels + first) * taps * 4
            transpose(buffer.ctypes.data, wanted * 4, out, channels * taps * 4, members * taps, wanted, add)
