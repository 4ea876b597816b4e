"""The GPU device: its memory, its formulas, its kernels, and the operations that it builds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .. import Window
from ..formula import Formula, one_by_one
from . import cudnn, formulas, operations, preprocessing, recurrent, selection, windows
from .backend import HEAD, CuPyBackend

PARTS = 256  # most blocks of a sum: fixed, so that results do not depend on the GPU
BLOCK = 256  # threads of a block
MOST_BLOCKS = 1 << 14  # kernels stride over what is left
UPDATE_TILE = 2048  # elements that one block of an update rule takes
PIECE = 4096  # numbers of a channel's sum that are worth a block of their own
SUM_BLOCKS = 2048  # most blocks of the sums of all channels, where channels are fewer
SMALL = 1 << 30  # elements that int indices reach, strides included


class GPU:
    """Arrays are CuPy's; operations are queued on one stream and return at once.

    number: which GPU. dtype: float32 (default), or float64, which the tests use to check gradients. precision: what convolutions and
    matrix products of float32 numbers multiply: tf32 (default) numbers of 10 bits, fp32 all 23, strictly. deterministic: plans whose
    results are equal to the last bit from run to run, and none chosen by a clock. backend: what runs it all, CuPy by default.
    Errors: no such GPU, no driver, CuPy not installed.
    """

    name = "gpu"
    prefers_channels_last = half = False
    waits = False  # an operation may not have finished when it returns: to read what it found is to wait for it

    def __init__(self, number: int = 0, dtype: str = "float32", backend=None, precision: str = "tf32", deterministic: bool = False):
        self.dtype = np.dtype(dtype)
        self.number = number
        self.clock = (0, 0)  # the iteration, and which part of its batch runs: what random numbers are keyed by
        self.seed = 0
        self.precision, self.deterministic = precision, deterministic
        self.backend = backend or CuPyBackend(number, strict=precision == "fp32")
        self.engine = cudnn.engine(self.backend) if dtype == "float32" else None
        self._texts = {}
        self._workspace = self.empty(0, np.uint8)
        self._add = {}

    # memory

    def empty(self, shape, dtype=None):
        return self.backend.empty(shape, np.dtype(dtype or self.dtype))

    def zeros(self, shape, dtype=None):
        array = self.empty(shape, dtype)
        self.backend.fill(array, 0)
        return array

    def view(self, raw, offset: int, shape: tuple[int, ...], dtype=None):
        """An array over ``raw`` bytes from ``offset`` on, which must suit the type's alignment."""
        return self.backend.view(raw, offset, shape, np.dtype(dtype or self.dtype))

    def upload(self, array, host: np.ndarray) -> None:
        host = np.ascontiguousarray(np.broadcast_to(host, array.shape), array.dtype)
        self.backend.upload(array, host)

    def download(self, array) -> np.ndarray:
        """A copy in the host's memory, when all that was queued is done."""
        return self.backend.download(array)

    def copy(self, source, target) -> None:
        assert source.size == target.size and source.dtype == target.dtype, (source.shape, target.shape)
        self.backend.copy(source, target)

    def copy_into(self, part, whole, start: int) -> None:
        """The columns of ``whole`` (R, T) from ``start`` on become ``part`` (R, S)."""
        self.assign(part, whole[:, start : start + part.shape[1]])

    def copy_out(self, whole, start: int, part) -> None:
        """part (R, S) becomes the columns of ``whole`` (R, T) from ``start`` on."""
        self.assign(whole[:, start : start + part.shape[1]], part)

    def fill(self, array, value: float) -> None:
        self.backend.fill(array, value)

    def assign(self, source, target) -> None:
        """target = source, both perhaps views (slices, transposes), of different stretches of memory; source is broadcast."""
        self.backend.assign(source, target)

    def add(self, source, target) -> None:
        """target += source, views as in ``assign``."""
        size = target.size
        if source.size != size or not (source.flags.c_contiguous and target.flags.c_contiguous):
            self.backend.add(source, target)
            return
        if size not in self._add:
            self._add[size] = self.kernel("elementwise", "add", size, size)
        self._add[size](source, target)

    def synchronize(self) -> None:
        self.backend.synchronize()

    def workspace(self, count: int, dtype=None):
        """Scratch shared by all operations, valid within one of them; ask for it again on every run."""
        dtype = np.dtype(dtype or self.dtype)
        if self._workspace.nbytes < count * dtype.itemsize:
            self._workspace = self.empty(count * dtype.itemsize, np.uint8)
        return self.view(self._workspace, 0, (count,), dtype)

    # kernels

    def random_key(self, samples: int) -> tuple[np.uint32, ...]:
        """What random kernels take besides their arrays: the seed's two words, the iteration, the first of this part's ``samples``."""
        iteration, part = self.clock
        return tuple(np.uint32(v & 0xFFFFFFFF) for v in (self.seed, self.seed >> 32, iteration, part * samples))

    def kernel(self, family: str, name: str, threads: int, *fixed, size: int = 0, block: int = BLOCK):
        """``run(*arguments)``: a kernel of <family>.cu on at least ``threads`` threads or ``MOST_BLOCKS`` blocks.

        fixed: the last parameters, which never change: whole numbers become idx, others real, None a null pointer; NumPy's stay.
        size: the largest index, where that is not ``threads``.
        """
        kind = "int" if max(size, threads) < SMALL else "long long"
        if family not in self._texts:
            self._texts[family] = (Path(__file__).parent / f"{family}.cu").read_text()
        launch = self._compile(self._texts[family], name, kind)
        whole = np.int32 if kind == "int" else np.int64
        tail = tuple(self._argument(v, whole) for v in fixed)
        grid = (max(1, min(math.ceil(threads / block), MOST_BLOCKS)), 1, 1)

        def run(*arguments):
            launch(grid, (block, 1, 1), (*(self._argument(v, whole) for v in arguments), *tail))

        return run

    def _argument(self, value, whole):
        if value is None:
            return np.uintp(0)
        if type(value) in (int, bool):
            return whole(value)
        return self.dtype.type(value) if type(value) is float else value

    def _compile(self, text: str, name: str, idx: str = "long long"):
        """The kernel ``name`` of a text that follows the prelude."""
        if "prelude" not in self._texts:
            self._texts["prelude"] = (Path(__file__).parent / "prelude.cu").read_text()
        real = {"float32": "float", "float64": "double"}[self.dtype.name]
        return self.backend.kernel(HEAD.format(real=real, idx=idx) + self._texts["prelude"] + text, name)

    # formulas

    def map(self, formula: Formula, **constants: float):
        """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""
        launch = self._compile(formulas.map_source(formula), "formula_map")
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)

        def run(*operands):
            n = operands[-1].size
            launch(_grid(n, BLOCK, MOST_BLOCKS), (BLOCK, 1, 1), (np.int64(n), operands[-1], *operands[:-1], *values))

        return run

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float):
        """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, added up in float64."""
        source = formulas.sum_source(formula)
        launch, finish = (self._compile(source, name) for name in ("formula_sum", "formula_sum_finish"))
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        partial = self.empty(PARTS, np.float64)

        def run(*operands, add: bool = False):
            n, out = operands[0].size, operands[-1]
            grid = _grid(n, 4 * BLOCK, PARTS)
            result = partial, out, np.float64(scale), np.int64(add)
            launch(grid, (BLOCK, 1, 1), (np.int64(n), *result, *operands[:-1], *values))
            if grid[0] > 1:
                finish((1, 1, 1), (BLOCK, 1, 1), (np.int64(grid[0]), *result))

        return run

    def _indices(self, elements: int):
        """The type of indices, in CUDA and in NumPy, that reach ``elements``."""
        return ("int", np.int32) if elements < SMALL else ("long long", np.int64)

    def channel_map(self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float):
        """``run(*arrays, *scalars, out)``: ``map`` over (N, C, P), where the arrays named in ``channels`` have C elements."""
        kind, whole = self._indices(n * c * p)
        launch = self._compile(formulas.channel_map_source(formula, tuple(channels)), "formula_channel_map", kind)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        grid, sizes = _grid(n * c * p, BLOCK, MOST_BLOCKS), (whole(n), whole(c), whole(p))

        def run(*operands):
            launch(grid, (BLOCK, 1, 1), (*sizes, operands[-1], *operands[:-1], *values))

        return run

    def channel_sums(self, formulas: tuple[Formula, ...], channels, n: int, c: int, p: int, /, scale: float = 1.0, **constants: float):
        """``run(*arrays, outs)``: ``channel_sum`` of several formulas; arrays are those of all, each once."""
        return one_by_one(self, formulas, channels, n, c, p, scale, constants)

    def channel_sum(self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, scale: float = 1.0, **constants: float):
        """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, added up in float64.

        The arrays named in ``channels`` have C elements, the others N·C·P.
        """
        if c == 1:
            n, p = 1, n * p  # one long plane
        columns, (kind, whole) = p == 1, self._indices(n * c * p)
        source = formulas.channel_sum_source(formula, tuple(channels))
        names = "formula_column_sum" if columns else "formula_channel_sum", "formula_channel_finish"
        launch, finish = (self._compile(source, name, kind) for name in names)
        values = tuple(self.dtype.type(constants[name]) for name in formula.constants)
        groups, numbers = (math.ceil(c / 32), 32 * n) if columns else (c, n * p)
        pieces = max(1, min(math.ceil(numbers / PIECE), SUM_BLOCKS // max(1, groups)))
        partial = self.empty(c * pieces if pieces > 1 else 1, np.float64)
        block = 32 if numbers <= 128 and not columns else BLOCK
        sizes = (whole(n), whole(c), whole(p), whole(pieces), partial)

        def run(*operands, add: bool = False):
            result = operands[-1], np.float64(scale), whole(add)
            launch(_grid(groups * pieces, 1, MOST_BLOCKS), (block, 1, 1), (*sizes, *result, *operands[:-1], *values))
            if pieces > 1:
                finish(_grid(c, 1, MOST_BLOCKS), (BLOCK, 1, 1), (whole(c), whole(pieces), partial, *result))

        return run

    def updater(self, formula: Formula, chunks: np.ndarray, lr_mult: np.ndarray, decay: np.ndarray, **constants: float):
        """``run(rate, scale, *arrays, **changing)``: an update rule over flat buffers.

        chunks (K, 2) are element ranges, lr_mult and decay (K) theirs; changing are constants that differ from call to call.
        """
        launch = self._compile(formulas.update_source(formula), "formula_update")
        tiles = [(at, min(at + UPDATE_TILE, stop), k) for k, (start, stop) in enumerate(chunks) for at in range(start, stop, UPDATE_TILE)]
        start, stop, owner = np.array(tiles, np.int64).reshape(-1, 3).T
        tables = []
        for table in (start, stop, np.asarray(lr_mult, self.dtype)[owner], np.asarray(decay, self.dtype)[owner]):
            tables.append(self.empty(table.shape, table.dtype))
            self.upload(tables[-1], table)
        grid, real = (len(tiles), 1, 1), self.dtype.type

        def run(rate: float, scale: float, *arrays, **changing: float):
            values = {**constants, **changing}
            numbers = [real(values[n]) for n in formula.constants if n not in ("rate", "decay")]
            if tiles:
                launch(grid, (BLOCK, 1, 1), (*tables, real(rate), real(scale), *arrays, *numbers))

        return run

    # operations

    def inner_product(self, m: int, k: int, n: int, transpose: bool = False):
        return operations.InnerProduct(self, m, k, n, transpose)

    def convolution(self, x: tuple[int, ...], y: tuple[int, ...], window: Window, groups: int = 1):
        return (cudnn.Convolution if self.engine else operations.Convolution)(self, x, y, window, groups)

    def pooling(self, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window, stream: int | None = None):
        return windows.Pooling(self, method, x, y, window, stream)

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        return windows.LRN(self, n, c, p, size, alpha, beta, k)

    def im2col(self, x: tuple[int, ...], window: Window):
        return windows.Im2col(self, x, window.outputs(x[2:]), window)

    def take(self, rows: int, width: int, count: int):
        return selection.Take(self, rows, width, count)

    def top_k(self, n: int, c: int, p: int, k: int):
        return selection.TopK(self, n, c, p, k)

    def lstm(self, t: int, n: int, d: int):
        return recurrent.LSTM(self, t, n, d)

    def lstm_unit(self, n: int, d: int):
        return recurrent.LSTMUnit(self, n, d)

    def softmax(self, n: int, c: int, p: int):
        return operations.Softmax(self, n, c, p)

    def log_loss(self, n: int, c: int, p: int, ignore: int | None, divisor: float | None):
        return operations.LogLoss(self, n, c, p, ignore, divisor)

    def accuracy(self, n: int, c: int, p: int, top_k: int, ignore: int | None):
        return operations.Accuracy(self, n, c, p, top_k, ignore)

    def dropout(self, n: int, d: int, ratio: float, stream: int):
        return operations.Dropout(self, n, d, ratio, stream)

    def preprocess(self, out: tuple[int, ...], mean: np.ndarray | None, scale: float):
        return preprocessing.Preprocess(self, out, mean, scale)


def _grid(threads: int, block: int, most: int) -> tuple[int, int, int]:
    return max(1, min(math.ceil(threads / block), most)), 1, 1
