"""The algorithms that a CPU's convolutions can take, and their workspace, as plain values; requires no device."""

import math
from typing import NamedTuple

from .processor import has_registers
from .window import Window

DIRECT, PRODUCT, DEPTHWISE, COLUMNS = "direct", "product", "depthwise", "columns"
WINOGRAD = {"winograd2": 2, "winograd4": 4}  # by algorithm: the side of a tile of outputs
EXACT_TILE = 2  # outputs of the tile whose weight gradient has nearly the direct one's rounding errors
MEASURED_WORK = 1 << 26  # multiply-adds below which a convolution is direct, and nothing is measured
MEASURED_TEST_WORK = 1 << 23  # the same of nets that only test, which transform weights once
MEASURED_DEPTHWISE = 1 << 16  # the same for a depthwise convolution, which takes longer to read than to multiply
LANES, PANEL = (16, 4) if has_registers() else (8, 2)  # channels in a vector, vectors in a panel: as registers hold
WIDTH = 16  # channels, below which kernels for many channels do not pay
MOST_PADDING = 1.7  # channels in the vectors of Winograd's kernels, at most, as a multiple of all channels
ROWS = 6  # tiles in a product of Winograd's kernels
ROWS_TURNED = 4  # channels in a product of their weight gradient, where ROWS do not divide them
GROUP = 8  # channels whose weights are reordered together: rows of weights are far apart in memory
BLOCK_BYTES = 3 << 19  # of transformed tiles, which stay in a core's second-level cache
FEW_ROWS = 32  # of a product with large weights, at most
FEW_ROWS_FORWARD = 8  # the same for the forward pass, where more rows are not faster
FEW_ROWS_WEIGHTS = 1 << 23  # at least: more than second-level caches hold
FEW_ROWS_COLUMNS = 64  # of which the weights have a multiple
DEPTHWISE_CHUNKS = 32  # of the sums over pixels in a depthwise convolution's weight gradient, for threads
GRADIENT_TERMS = 512  # pixels that a depthwise convolution's weight gradient adds up at a time
TILE_BYTES = 1 << 19  # of columns and of the rows that they are filled from, in a core's second-level cache
LEAST_COLUMNS = 256  # of a product: with fewer it spends more on packing its operands than on multiplying
DEPTH = 128  # factors that a product sums before it goes on to the next rows: a panel of them stays in the L1 cache
CHUNK_BYTES = 4 << 20  # of both factors of a weight gradient, which stay in a third-level cache
Shape = tuple[int, ...]


class Tile(NamedTuple):
    """What Winograd's kernels compute at a time: outputs² outputs of windows of size²."""

    outputs: int
    size: int

    @property
    def square(self) -> int:
        """Inputs of a tile, and products for each pair of channels."""
        return (self.outputs + self.size - 1) ** 2

    @property
    def taps(self) -> int:
        return self.size**2


def rounded(count: int, unit: int) -> int:
    """The next multiple of ``unit``."""
    return -(-count // unit) * unit


def candidates(x: Shape, y: Shape, window: Window, groups: int, half: bool) -> list[str]:
    """The algorithms for a convolution of channels_last images x (N, C, H, W) to y (N, M, OH, OW); the first is the one
    that runs where nothing is measured. half: of 16-bit numbers."""
    names = [DIRECT]
    if is_depthwise(x, y, groups) and window.kernel == (3, 3) and window.dilation == (1, 1) and max(window.pad) <= 2:
        return names + [DEPTHWISE] * (window.stride in ((1, 1), (2, 2)))
    if window.stride != (1, 1):
        return names
    if window.kernel == (1, 1) and not any(window.pad) and groups == 1 and not half:
        names.append(PRODUCT)
    if window.kernel in ((3, 3), (5, 5)) and window.dilation == (1, 1) and max(window.pad) < window.kernel[0]:
        if fills_vectors(x[1] // groups, y[1] // groups):
            names += WINOGRAD if window.kernel[0] == 3 else ["winograd4"]
    return names


def fills_vectors(c: int, m: int) -> bool:
    """Whether Winograd's kernels from C channels to M compute few channels twice."""
    return min(c, m) >= WIDTH and c % ROWS_TURNED == 0 and all(rounded(n, LANES) <= MOST_PADDING * n for n in (c, m))


def has_few_channels(c: int, m: int, window: Window) -> bool:
    """Whether the direct algorithm's forward pass from C channels to M has kernels for few channels without pad, which
    add in Caffe's order."""
    return c <= 2 * WIDTH and 40 <= m <= 4 * WIDTH and not any(window.pad)


def keeps_order(x: Shape, y: Shape, window: Window, groups: int) -> bool:
    """Whether the forward pass of training is direct, as LeNet's second: another order of its sums is seen in the
    losses of the first 50 iterations on MNIST. Channels that fill all vectors gain more by other algorithms."""
    uneven = x[1] % WIDTH or y[1] % WIDTH
    return bool(groups == 1 and uneven and has_few_channels(x[1], y[1], window))


def is_depthwise(x: Shape, y: Shape, groups: int) -> bool:
    """Whether each output channel reads one input channel, and each input channel one output channel."""
    return groups == x[1] == y[1] > 1


def measured(x: Shape, y: Shape, window: Window, groups: int, tests: bool = False) -> bool:
    """Whether a convolution has work enough for its algorithms to be measured. tests: of a net that only tests."""
    if is_depthwise(x, y, groups):
        return work(x, y, window, groups) >= MEASURED_DEPTHWISE
    return work(x, y, window, groups) >= (MEASURED_TEST_WORK if tests else MEASURED_WORK)


def work(x: Shape, y: Shape, window: Window, groups: int = 1) -> int:
    """Multiply-adds of a pass of the direct algorithm."""
    return math.prod(y) * x[1] // groups * math.prod(window.kernel)


def has_few_rows(m: int, k: int, n: int) -> bool:
    """Whether kernels for few rows apply to a product of x (M, K) with weights (N, K)."""
    return m <= FEW_ROWS and n * k >= FEW_ROWS_WEIGHTS and k % FEW_ROWS_COLUMNS == 0 and n % 4 == 0


class ColumnTile(NamedTuple):
    """Rows of outputs that a thread computes at a time by a product with columns. depth: of the rows of inputs for
    these, by stride. size: numbers of these rows and of the columns."""

    rows: int
    depth: int
    size: int


def column_tile(channels: int, out: Shape, window: Window, itemsize: int = 4) -> ColumnTile:
    """The tile of a convolution that is not channels_last. channels: of a group. out: height and width of the top."""
    (kh, kw), (stride, _), _, (dilation, _) = window

    def of(rows: int) -> ColumnTile:
        depth = -(-((rows - 1) * stride + (kh - 1) * dilation + 1) // stride)
        return ColumnTile(rows, depth, channels * kw * (stride * depth + kh * rows) * out[1])

    tile = of(out[0])
    while tile.rows > 1 and tile.size * itemsize > TILE_BYTES and (tile.rows + 1) // 2 * out[1] >= LEAST_COLUMNS:
        tile = of((tile.rows + 1) // 2)
    return tile


def tile_count(y: Shape, outputs: int) -> int:
    """Tiles of outputs² outputs of y (N, M, OH, OW)."""
    return y[0] * -(-y[2] // outputs) * -(-y[3] // outputs)


def block_tiles(c: int, m: int, tiles: int, tile: Tile, threads: int) -> int:
    """How many tiles of C channels a thread transforms at a time: a multiple of ROWS. Each block reads all weights, so
    it is larger where they are many."""
    most = max(BLOCK_BYTES, tile.square * c * m) // (4 * tile.square * (c + PANEL * LANES))
    return rounded(max(1, min(most, -(-tiles // threads))), ROWS)


def chunk_tiles(c: int, m: int, tiles: int, tile: Tile) -> int:
    """How many tiles of a weight gradient are transformed before they are multiplied. Results depend on it, so it does
    not depend on the number of threads."""
    most = max(64, CHUNK_BYTES // (4 * tile.square * (c + m)))
    return -(-tiles // -(-tiles // most))


def padded(rows: int, channels: int) -> int:
    """Numbers of a matrix whose columns are divided into panels of at most PANEL vectors, with a vector after each."""
    return rows * rounded(channels, LANES) + -(-channels // (PANEL * LANES)) * LANES


def by_panels(m: int, tiles: int) -> bool:
    """Whether a pass to M channels transforms weights panel by panel where it uses them: those of all panels are larger
    than the transformed images."""
    return tiles < m


def panel_depth(c: int, tiles: int) -> int:
    """How many of C channels of a panel's weights are transformed at a time, where a pass goes ``by_panels``: all where
    the products, which each part reads and writes, are larger than the weights."""
    return c if tiles > DEPTH else min(c, DEPTH)


def pass_sizes(c: int, m: int, tiles: int, tile: Tile, threads: int) -> tuple[int, int, int]:
    """Numbers of float32 in the workspace of a pass from C channels to M: as ``packed_sizes``, or ``by_panels`` the
    transformed images, and a panel for each thread, in place of the first two."""
    if not by_panels(m, tiles):
        return packed_sizes(c, m, tiles, tile, threads)
    square, rows = tile.square, rounded(tiles, ROWS)
    panel = square * (panel_depth(c, tiles) + rows) * PANEL * LANES + (square + PANEL) * LANES
    return square * (rows * c + LANES), threads * panel, threads * GROUP * tile.taps * PANEL * LANES


def packed_sizes(c: int, m: int, tiles: int, tile: Tile, threads: int) -> tuple[int, int, int]:
    """The same where weights are packed before: the packed weights, the blocks of all threads, some rows of weights for
    each thread."""
    square, rough = tile.square, threads * GROUP * tile.taps * PANEL * LANES
    blocks = block_numbers(c, block_tiles(c, m, tiles, tile, threads), tile)
    return square * padded(c, m), threads * blocks, rough


def block_numbers(c: int, block: int, tile: Tile) -> int:
    """The workspace of a thread that transforms ``block`` tiles of C channels at a time."""
    return tile.square * (block * (c + PANEL * LANES) + LANES) + c + PANEL * LANES


def gradient_sizes(c: int, m: int, tiles: int, tile: Tile, threads: int) -> tuple[int, int, int, int]:
    """The same for a weight gradient: both factors, their products, some rows of weights for each
    thread."""
    square, chunk = tile.square, chunk_tiles(c, m, tiles, tile)
    factors = square * chunk * (c + LANES), square * padded(chunk, m)
    return *factors, square * padded(c, m), threads * GROUP * tile.taps * PANEL * LANES


def depthwise_sizes(x: Shape, y: Shape) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Shapes of float32 in the workspace of a depthwise convolution: the packed weights, and the partial sums of the
    weight gradient. The number of chunks does not depend on the number of threads, as results depend on it."""
    width, rows, pixels = rounded(x[1], LANES), y[0] * y[2], y[0] * y[2] * y[3]
    chunks = max(1, min(rows, max(pixels // GRADIENT_TERMS, min(DEPTHWISE_CHUNKS, pixels // 48))))
    return (9, width), (chunks, 9, width)


def workspace(x: Shape, y: Shape, window: Window, groups: int, half: bool, threads: int, backward: bool) -> int:
    """Bytes of the workspace of a convolution by the algorithm that needs most."""
    largest = 0
    if not measured(x, y, window, groups, tests=not backward):
        return largest
    for name in candidates(x, y, window, groups, half):
        if outputs := WINOGRAD.get(name):
            c, m, tiles, tile = x[1] // groups, y[1] // groups, tile_count(y, outputs), Tile(outputs, window.kernel[0])
            sizes = c, m, tiles, tile, threads
            passes: list[tuple[int, ...]] = [pass_sizes(*sizes), packed_sizes(*sizes)[1:]]
            if backward:
                passes.append(pass_sizes(m, c, tile_count(x, outputs), tile, threads))
                if outputs == EXACT_TILE:
                    passes.append(gradient_sizes(c, m, tiles, tile, threads))
            images = half * (math.prod(x) + math.prod(y))
            largest = max(largest, *(4 * (images + sum(sizes)) for sizes in passes))
        elif name == DEPTHWISE:
            packed, partial = depthwise_sizes(x, y)
            largest = max(4 * (9 + threads) * packed[1], backward * 4 * math.prod(partial))
    return largest
