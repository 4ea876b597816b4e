"""The GPU device: its memory, its formulas, its kernels, and the operations that it builds."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from .. import Window
from ..formula import Formula, merged, unbias
from ..traits import LITTLE_WORK, cuda_traits
from . import (
    convolution,
    cudnn,
    formulas,
    input_buffer,
    operations,
    precisions,
    preprocessing,
    recurrent,
    selection,
    windows,
)
from .backend import HEAD, CuPyBackend
from .graphs import CapturedGraph
from .scaling import LossScale
from .streams import Fork

log = logging.getLogger("caffelite")
PARTS = (
    1024  # most blocks of a sum: fixed, so that results do not depend on the GPU; 8 for each multiprocessor of an H100
)
PARTIAL_BYTES = 256 << 10  # of partial sums of channels, about: what one block adds up must be little
ACROSS = 8  # threads that read one row of channels: 128 bytes, a cache line
BLOCK = 256  # threads of a block
MOST_BLOCKS = 1 << 13  # kernels stride over what is left
UPDATE_TILE = 2048  # elements that one block of an update rule takes
FORKS = 2  # streams beside the main one, for small layers: gradients of weights, of bias, of the bottom
PIECE = 8192  # numbers of a channel's sum that are worth a block of their own
HALVES = (np.dtype(np.float16), np.dtype(np.uint16))  # a blob's numbers of 16 bits; uint16 is what bfloat16 lies in
SMALL = 1 << 30  # elements that int indices reach, strides included


class GPU:
    """Arrays are CuPy's; operations are queued on one stream and return at once.

    number: which GPU. dtype: float32 (default), or float64, which the tests use to check gradients. precision: what
    convolutions and matrix products multiply: tf32 (default) float32 numbers cut to 10 bits, fp32 all their 23,
    strictly; fp16 or bf16 numbers of 16 bits, with sums, parameters and updates in float32. deterministic: plans whose
    results are equal to the last bit from run to run, and none chosen by a clock. backend: what runs it all, CuPy by
    default. Errors: no such GPU, no driver, CuPy not installed, a precision that the GPU lacks.
    """

    name = "gpu"
    waits = False  # an operation may not have finished when it returns: to read what it found is to wait for it

    def __init__(
        self,
        number: int = 0,
        dtype: str = "float32",
        backend=None,
        precision: str = "tf32",
        deterministic: bool = False,
        eager: str = "",
    ):
        self.dtype = np.dtype(dtype)
        self.number = number
        self.deterministic = deterministic
        self.eager = eager  # who asked that nothing is captured in graphs, or nothing
        self.capturing = False
        self.generation = 0  # of memory that moves only when it grows: graphs are void when it does
        self.backend = backend or CuPyBackend(number, strict=precision == "fp32")
        self.precision = precision = precisions.suited(precision, self.backend.capability, number)
        self.engine = cudnn.engine(self.backend, precision == "fp32", deterministic) if dtype == "float32" else None
        self.traits = traits = cuda_traits(
            precision, self.dtype.name, self.backend.capability, self.engine is not None, captures=not eager
        )
        self.half = traits.half
        self.half_type = np.dtype("float16" if precision == "fp16" else "uint16")
        if traits.half and not traits.half_images:
            lacking = "cuDNN" if self.engine is None else "tensor cores"
            log.warning("-precision %s: without %s only inner products multiply numbers of 16 bits", precision, lacking)
        self._texts = {}
        self._workspace = self.empty(0, np.uint8)
        self._forks = [(Fork(self.backend), self.empty(0, np.uint8)) for _ in range(FORKS)]  # each with its workspace
        self._runs: dict = {}
        self._programs: weakref.WeakSet[CapturedGraph] = weakref.WeakSet()
        self._sum_of_two, self._copied = self.map(Formula("a + b", ("a", "b"))), self.map(Formula("a", ("a",)))
        self._seed = 0
        self.input_buffer = self._own = self.make_input_buffer()  # of the net that runs
        self.clock = (0, 0)

    # memory

    def empty(self, shape, dtype=None):
        return self.backend.empty(shape, np.dtype(dtype or self.dtype))

    def zeros(self, shape, dtype=None):
        array = self.empty(shape, dtype)
        self.backend.fill(array, 0)
        return array

    def view(self, raw, offset: int, shape: tuple[int, ...], dtype=None):
        """An array over ``raw`` bytes from ``offset`` on, which must suit the type's alignment. Numbers of 16 bits,
        which layers call uint16, are of ``half_type``."""
        dtype = np.dtype(dtype or self.dtype)
        return self.backend.view(raw, offset, shape, self.half_type if dtype == np.uint16 else dtype)

    def upload(self, array, host: np.ndarray) -> None:
        host = np.ascontiguousarray(np.broadcast_to(host, array.shape), array.dtype)
        self.backend.upload(array, host)

    def download(self, array) -> np.ndarray:
        """A copy in the host's memory, when all that was queued is done."""
        return self.backend.download(array)

    def copy(self, source, target) -> None:
        assert source.size == target.size and source.dtype == target.dtype, (source.shape, target.shape)
        self.backend.copy(source, target)

    def transpose(self, source, target) -> None:
        """target (N, B, A) = source (N, A, B) with its last axes swapped."""
        n, a, b = source.shape
        if min(a, b) < 16:
            self._run("copies", "transpose_few", source.size, n, a, b)(source, target)
        else:
            tiles = n * math.ceil(a / 32) * math.ceil(b / 32)
            self._run("copies", "transpose_tiles", tiles * BLOCK, n, a, b, size=source.size)(source, target)

    def copy_into(self, part, whole, start: int) -> None:
        """The columns of ``whole`` (R, T) from ``start`` on become ``part`` (R, S)."""
        self._columns("copy_into", part, whole, start)

    def copy_out(self, whole, start: int, part, more: Sequence = ()) -> None:
        """part (R, S) becomes the columns of ``whole`` (R, T) from ``start`` on, or the sum of those and of the same
        ones of ``more``, at most 7."""
        if more:
            self._columns("sum_out", part, whole, start, *more, *[None] * (7 - len(more)))
        else:
            self._columns("copy_out", part, whole, start)

    def _columns(self, name: str, part, whole, start: int, *more) -> None:
        (rows, width), total = part.shape, whole.shape[1]
        self._run("copies", name, math.ceil(part.size / 4), start, rows, width, total, size=whole.size)(
            part, whole, *more
        )

    def _run(self, *built, **how):
        """A kernel by what it is built of, built once."""
        key = (*built, *how.items())
        if key not in self._runs:
            self._runs[key] = self.kernel(*built, **how)
        return self._runs[key]

    def fill(self, array, value: float) -> None:
        self.backend.fill(array, value)

    def assign(self, source, target) -> None:
        """target = source, both perhaps views (slices, transposes), of different stretches of memory; source is
        broadcast."""
        self.backend.assign(source, target)

    def add(self, source, target) -> None:
        """target += source, views as in ``assign``."""
        if source.size != target.size or not (source.flags.c_contiguous and target.flags.c_contiguous):
            self.backend.add(source, target)
        else:
            self._sum_of_two(source, target, target)

    def conversions(self):
        """``narrow(x, y)``, which rounds float32 numbers to 16 bits, and ``widen(x, y)``, its way back."""
        return self._copied, self._copied

    def widened(self, array):
        """Numbers of 16 bits as float32 ones; a copy."""
        if not array.flags.c_contiguous:
            self.assign(array, whole := self.empty(array.shape, array.dtype))
            array = whole
        self._copied(array, wide := self.empty(array.shape))
        return wide

    def synchronize(self) -> None:
        self.backend.synchronize()

    def moment(self):
        """When all that was queued so far is done, for ``between``."""
        return self.backend.moment()

    def between(self, begin, end) -> float:
        """Milliseconds from one moment to another; waits for the later one."""
        return self.backend.between(begin, end)

    # what changes from pass to pass, and what does not

    def make_input_buffer(self) -> input_buffer.InputBuffer:
        return input_buffer.InputBuffer(self, self._seed)

    @property
    def seed(self) -> int:
        """What random numbers are keyed by in the net that runs; set, in nets that are built from then on."""
        return self.input_buffer.seed

    @seed.setter
    def seed(self, value: int) -> None:
        self._seed = self._own.seed = value

    def ring(self, rows: int, width: int = 1) -> input_buffer.Ring:
        return input_buffer.Ring(self, rows, width)

    def loss_scale(self, start: float | None) -> LossScale | None:
        """What keeps gradients of fp16 numbers from vanishing: a factor for the loss, from ``start`` on; None where it
        is not needed."""
        if self.precision != "fp16":
            return None
        return LossScale(self, start or LossScale.START)

    def program(self, body, signature=tuple, gather=None) -> CapturedGraph:
        """``body``, to be called with keys: captured as CUDA graphs unless ``eager``. gather: see Program."""
        program = CapturedGraph(self, body, signature, gather)
        self._programs.add(program)
        return program

    def why_eager(self) -> str:
        """Why something is not captured in graphs; nothing where all is."""
        return self.eager or next((program.eager for program in self._programs if program.eager), "")

    @contextlib.contextmanager
    def agreeing(self, rank: int, gather: Callable) -> Iterator[None]:
        """Within it all processes run the same, and take the plans for convolutions that the first of them chooses.
        gather(value): the values of all."""
        if self.engine:
            self.engine.ranks = rank, gather
        try:
            yield
        finally:
            if self.engine:
                self.engine.ranks = None

    def drop_graphs(self) -> None:
        """Destroys all graphs; what runs on captures anew."""
        for program in self._programs:
            program.close()

    @property
    def clock(self) -> tuple[int, int]:
        """The iteration, and which part of its batch runs: what random numbers are keyed by."""
        return tuple(int(word) for word in self.download(self.input_buffer.clock.array)[2:])

    @clock.setter
    def clock(self, value: tuple[int, int]) -> None:
        self.input_buffer.begin()
        self.input_buffer.put_clock(0, *value)
        self.input_buffer.send()

    def workspace(self, count: int, dtype=None):
        """Scratch shared by all operations, valid within one of them; ask for it again on every run."""
        dtype = np.dtype(dtype or self.dtype)
        if self._workspace.nbytes < count * dtype.itemsize:
            self._workspace = self.empty(count * dtype.itemsize, np.uint8)
            self.generation += 1
        return self.view(self._workspace, 0, (count,), dtype)

    def run_concurrently(self, work: int, *parts: Callable[[], None]) -> None:
        """Queues what does not depend on each other. The parts may run at the same time where they would not fill the
        GPU: where each has little ``work``, in multiply-adds."""
        aside = parts[:-1][:FORKS] if work <= 2 * LITTLE_WORK else ()
        for i, part in enumerate(aside):
            fork, space = self._forks[i]
            main, self._workspace = self._workspace, space
            try:
                with fork:
                    part()
            finally:
                self._forks[i], self._workspace = (fork, self._workspace), main
        for part in parts[len(aside) :]:
            part()
        for fork, _ in self._forks[: len(aside)]:
            fork.join()

    # kernels

    def random_key(self, samples: int) -> tuple:
        """What random kernels take besides their arrays: the clock (seed's two words, iteration, part), and a part's
        ``samples``."""
        return self.input_buffer.clock.array, np.uint32(samples)

    def kernel(self, family: str, name: str, threads: int, *fixed, size: int = 0, block: int = BLOCK):
        """``run(*arguments)``: a kernel of <family>.cu on at least ``threads`` threads or ``MOST_BLOCKS`` blocks.

        fixed: the last parameters, which never change: whole numbers become idx, others real, None a null pointer;
        NumPy's stay. size: the largest index, where that is not ``threads``.
        """
        kind = "int" if max(size, threads) < SMALL else "long long"
        if family not in self._texts:
            self._texts[family] = (Path(__file__).parent / f"{family}.cu").read_text()
        whole, launches = np.int32 if kind == "int" else np.int64, {}
        tail = tuple(self._argument(v, whole) for v in fixed)
        grid = (max(1, min(math.ceil(threads / block), MOST_BLOCKS)), 1, 1)

        def run(*arguments):
            blob = next((a.dtype.name for a in arguments if getattr(a, "dtype", None) in HALVES), self.dtype.name)
            if blob not in launches:
                launches[blob] = self._compile(self._texts[family], name, kind, formulas.TYPES[blob])
            launches[blob](grid, (block, 1, 1), (*(self._argument(v, whole) for v in arguments), *tail))

        return run

    def _argument(self, value, whole):
        if value is None:
            return np.uintp(0)
        if type(value) in (int, bool):
            return whole(value)
        return self.dtype.type(value) if type(value) is float else value

    def _compile(self, text: str, name: str, idx: str = "long long", blob: str | None = None):
        """The kernel ``name`` of a text that follows the prelude."""
        for part in ("types", "prelude"):
            if part not in self._texts:
                self._texts[part] = (Path(__file__).parent / f"{part}.cu").read_text()
        real = formulas.TYPES[self.dtype.name]
        head = HEAD.format(real=real, idx=idx, blob=blob or real)
        return self.backend.kernel(self._texts["types"] + head + self._texts["prelude"] + text, name)

    # formulas

    def _typed(self, source, name: str, names: tuple[str, ...], idx: str = "long long"):
        """``choose(arrays)``: the kernel of the text ``source(types)`` for the types of these arrays, which are called
        ``names``."""
        found: dict = {}

        def choose(arrays):
            key = tuple(a.dtype for a in arrays)
            if key not in found:
                types = {n: formulas.TYPES[a.dtype.name] for n, a in zip(names, arrays, strict=True)}
                found[key] = self._compile(source(types), name, idx), formulas.packed(types.values())
            return found[key]

        return choose

    def _constants(self, formulas_: tuple[Formula, ...], constants: dict[str, float]) -> tuple:
        return tuple(
            self.dtype.type(constants[name]) for name in dict.fromkeys(n for f in formulas_ for n in f.constants)
        )

    def map(self, formula: Formula, **constants: float):
        """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""
        choose = self._typed(
            partial(formulas.map_source, formula), "formula_map", (*formula.arrays, *formula.scalars, "out")
        )
        values = self._constants((formula,), constants)

        def run(*operands):
            n, (launch, each) = operands[-1].size, choose(operands)
            launch(
                _grid(n, each * BLOCK, MOST_BLOCKS), (BLOCK, 1, 1), (np.int64(n), operands[-1], *operands[:-1], *values)
            )

        return run

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float):
        """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, added up in float64."""
        choose = self._typed(
            partial(formulas.sum_source, formula), "formula_sum", (*formula.arrays, *formula.scalars, "out")
        )
        values, parts, come = (
            self._constants((formula,), constants),
            self.empty(PARTS, np.float64),
            self.zeros(1, np.uint32),
        )

        def run(*operands, add: bool = False):
            n, (launch, each) = operands[0].size, choose(operands)
            result = parts, come, operands[-1], np.float64(scale), np.int64(add)
            launch(_grid(n, 4 * each * BLOCK, PARTS), (BLOCK, 1, 1), (np.int64(n), *result, *operands[:-1], *values))

        return run

    def _indices(self, elements: int):
        """The type of indices, in CUDA and in NumPy, that reach ``elements``."""
        return ("int", np.int32) if elements < SMALL else ("long long", np.int64)

    def channel_map(self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float):
        """``run(*arrays, *scalars, out)``: ``map`` over (N, C, P), where the arrays named in ``channels`` have C
        elements."""
        kind, whole = self._indices(n * c * p)
        source, names = (
            partial(formulas.channel_map_source, formula, tuple(channels), p == 1),
            (*formula.arrays, *formula.scalars, "out"),
        )
        choose = self._typed(source, "formula_channel_map", names, kind)
        values, sizes = self._constants((formula,), constants), (whole(n), whole(c), whole(p))

        def run(*operands):
            launch, each = choose(operands)
            launch(
                _grid(n * c * p, each * BLOCK, MOST_BLOCKS),
                (BLOCK, 1, 1),
                (*sizes, operands[-1], *operands[:-1], *values),
            )

        return run

    def channel_sums(
        self,
        formulas_: tuple[Formula, ...],
        channels,
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        kept: bool = False,
        **constants: float,
    ):
        """``run(*arrays, outs)``: ``channel_sum`` of several formulas, in one pass; arrays are those of all, each once.
        kept: ``run(*arrays, outs, kept)``, an array, perhaps one of those, that gets the first formula's values."""
        launch = self._sums(formulas_, channels, (n, c, p), formulas.plain_ending(len(formulas_)), constants, kept)

        def run(*operands):
            outs, tail = (operands[-2], operands[-1:]) if kept else (operands[-1], ())
            launch((np.float64(scale), False, *outs, *tail), operands[: -1 - kept])

        return run

    def channel_sum(
        self,
        formula: Formula,
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        **constants: float,
    ):
        """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, added up in
        float64.

        The arrays named in ``channels`` have C elements, the others N·C·P.
        """
        launch = self._sums((formula,), channels, (n, c, p), formulas.plain_ending(1), constants)

        def run(*operands, add: bool = False):
            launch((np.float64(scale), add, operands[-1]), operands[:-1])

        return run

    def relu_backward(self, n: int, c: int, p: int, slope: float):
        """``run(y, dy, db=None, add=False)``: dy (N, C, P), the gradient of a leaky ReLU's top y, becomes its bottom's;
        db (C), if any, = [db +] the sum of that over N and P. Where P is 1, both may be slices of wider rows."""
        formula = Formula("where(y > 0, dy, slope * dy)", ("y", "dy"), constants=("slope",))
        alone, unread = self.map(formula, slope=slope), functools.cache(lambda: self.empty(c))
        launch = self._sums((formula,), (), (n, c, p), formulas.plain_ending(1), {"slope": slope}, kept=True)

        def run(y, dy, db=None, add: bool = False):
            if db is not None:
                launch((np.float64(1), add, db, dy), (y, dy))
            elif y.flags.c_contiguous and dy.flags.c_contiguous:
                alone(y, dy, dy)
            else:
                launch((np.float64(1), False, unread(), dy), (y, dy))

        return run

    def batch_moments(self, n: int, c: int, p: int, eps: float, keep: float):
        """``run(x, mean, scale, means, variances, count)``: see formula.batch_moments; one pass, of differences from
        the first number."""
        both = Formula("x - first", ("x", "first")), Formula("(x - first) * (x - first)", ("x", "first"))
        launch = self._sums(both, ("first",), (n, c, p), formulas.BATCH_MOMENTS, {})
        constants = np.float64(1 / (n * p)), float(eps), float(keep), float(unbias(n * p))

        def run(x, *results):
            launch((*constants, *results), (x, x))

        return run

    def _sums(
        self,
        formulas_: tuple[Formula, ...],
        channels,
        split: tuple[int, int, int],
        ending,
        constants: dict,
        kept: bool = False,
    ):
        """``launch(results, operands)``: sums of formulas into channels; results: what the ending's parameters and
        ``kept`` are. Where P is 1, operands and ``kept`` may be slices of wider rows."""
        n, c, p = split
        if c == 1:
            n, p = 1, n * p  # one long plane
        columns, (kind, whole) = p == 1, self._indices(n * c * p)
        names = (
            *merged(formulas_),
            *dict.fromkeys(s for f in formulas_ for s in f.scalars),
            *(["kept"] if kept else []),
        )
        values, shapes = self._constants(formulas_, constants), {}

        def source(sliced, types):
            return formulas.channel_sums_source(formulas_, tuple(channels), columns, types, ending, kept, sliced)

        whole_rows, slices = (
            self._typed(partial(source, sliced), "formula_channel_sums", names, kind) for sliced in (False, True)
        )

        def shape(each: int):
            """The grid, the block, and what the kernel takes first, for threads of ``each`` columns."""
            across = min(ACROSS, 1 << max(0, math.ceil(c / each) - 1).bit_length()) if columns else 1
            width = across * each if columns else 1
            groups, numbers, sums = math.ceil(c / width), width * n * p, len(formulas_)
            most = min(PARTS, PARTIAL_BYTES // (8 * sums * groups * width)) if columns else PARTS // groups
            pieces = max(1, min(math.ceil(numbers / PIECE), most))
            teams = math.ceil(pieces / formulas.TEAM) if columns else 0
            parts = self.empty(sums * groups * width * (pieces + teams) if pieces > 1 else 1, np.float64)
            first = (*(whole(v) for v in (n, c, p, pieces, across)), parts, self.zeros(groups * (teams + 1), np.uint32))
            return (
                _grid(groups * pieces, 1, MOST_BLOCKS),
                (32 if numbers <= 128 and not columns else BLOCK, 1, 1),
                first,
            )

        def launch(results, operands):
            arrays = (*operands, *results[-1:]) if kept else operands
            pitches = [convolution.pitch(array) for array in arrays]
            run, each = (slices if any(pitches) else whole_rows)(arrays)
            tail = [whole(apart or c) for apart in pitches] if any(pitches) else ()
            if each not in shapes:
                shapes[each] = shape(each)
            grid, block, first = shapes[each]
            run(grid, block, (*first, *(self._argument(v, whole) for v in results), *operands, *values, *tail))

        return launch

    def updater(self, formula: Formula, chunks: np.ndarray, lr_mult: np.ndarray, decay: np.ndarray, **constants: float):
        """``run(numbers, scale, *arrays)``: an update rule over flat buffers.

        chunks (K, 2) are element ranges, lr_mult and decay (K) theirs. numbers: the rate, then the formula's constants
        that are not given here, in its order; scale (1): what g is multiplied by. Both are arrays of the device.
        """
        launch = self._compile(formulas.update_source(formula, tuple(constants)), "formula_update")
        tiles = [
            (at, min(at + UPDATE_TILE, stop), k)
            for k, (start, stop) in enumerate(chunks)
            for at in range(start, stop, UPDATE_TILE)
        ]
        start, stop, owner = np.array(tiles, np.int64).reshape(-1, 3).T
        tables = []
        for table in (start, stop, np.asarray(lr_mult, self.dtype)[owner], np.asarray(decay, self.dtype)[owner]):
            tables.append(self.empty(table.shape, table.dtype))
            self.upload(tables[-1], table)
        grid, values = (len(tiles), 1, 1), [self.dtype.type(constants[n]) for n in formula.constants if n in constants]

        def run(numbers, scale, *arrays):
            if tiles:
                launch(grid, (BLOCK, 1, 1), (*tables, numbers, scale, *arrays, *values))

        return run

    # operations

    def inner_product(self, m: int, k: int, n: int, transpose: bool = False, half: bool = False):
        # Tensor cores take four float32 numbers at once.
        if self.engine and not half and not transpose and m * n * k <= LITTLE_WORK and n % 4 == k % 4 == 0:
            return convolution.InnerProduct(self, m, k, n)
        return operations.InnerProduct(self, m, k, n, transpose, half)

    def convolution(
        self,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        groups: int = 1,
        channels_last: bool = False,
        half: bool = False,
        name: str = "",
    ):
        if self.engine:
            return convolution.Convolution(self, x, y, window, groups, channels_last, name)
        return operations.Convolution(self, x, y, window, groups)

    def pooling(self, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window, stream: int | None = None):
        return windows.Pooling(self, method, x, y, window, stream)

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        return windows.LRN(self, n, c, p, size, alpha, beta, k)

    def channels_last_pooling(
        self, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window, half: bool = False
    ):
        return windows.ChannelsLastPooling(self, method, x, y, window)

    def im2col(self, x: tuple[int, ...], window: Window):
        return windows.Im2col(self, x, window.outputs(x[2:]), window)

    def take(self, rows: int, width: int, count: int):
        return selection.Take(self, rows, width, count)

    def top_k(self, n: int, c: int, p: int, k: int):
        return selection.TopK(self, n, c, p, k)

    def lstm(self, t: int, n: int, d: int, half: bool = False):
        return recurrent.LSTM(self, t, n, d, half)

    def lstm_unit(self, n: int, d: int):
        return recurrent.LSTMUnit(self, n, d)

    def softmax(self, n: int, c: int, p: int):
        return operations.Softmax(self, n, c, p)

    def softmax_loss(self, n: int, c: int, p: int, ignore: int | None, divisor: float | None):
        return operations.SoftmaxLoss(self, n, c, p, ignore, divisor)

    def accuracy(self, n: int, c: int, p: int, top_k: int, ignore: int | None):
        return operations.Accuracy(self, n, c, p, top_k, ignore)

    def dropout(self, n: int, d: int, ratio: float, stream: int):
        return operations.Dropout(self, n, d, ratio, stream)

    def preprocess(self, out: tuple[int, ...], mean: np.ndarray | None, scale: float):
        return preprocessing.Preprocess(self, out, mean, scale)


def _grid(threads: int, block: int, most: int) -> tuple[int, int, int]:
    return max(1, min(math.ceil(threads / block), most)), 1, 1
