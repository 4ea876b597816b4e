"""Matrix products of a few rows with large weights, which read or write each weight once.

The passes are limited by the speed of memory. A thread takes four rows of the weights (forward) or a block of columns
(backward) at a time; the rows of x, dy and dx stay in its second-level cache. Kernels that update the weights with
their gradient, block by block, are made of ``outer`` and ``prefetch_next``: see cpu/formulas.py.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES, PANEL
from .parallel import loop
from .settings import kernel
from .vectors import VECTOR, Vectors, broadcast, integer, splat

ROWS = 4  # of x and of the weights in a product that stays in registers
BYTES = 4 * LANES
AHEAD = 4  # rows of the weights that are prefetched before their use: processors do not foresee such strides
LINE = 64  # bytes of a cache line
BLOCK = 256  # columns: their rows of x and dx stay in the L1 cache
TILE = PANEL * LANES  # columns of a tile of the gradients


@intrinsic
def _dots(_context: Any, a: Any, a_row: Any, b: Any, b_row: Any, steps: Any, sums: Any) -> Any:
    """sums (ROWS, ROWS, LANES) += the products of ROWS rows of a with those of b, ``steps`` vectors long.

    Addresses, and the bytes from row to row."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        a, a_row, b, b_row, steps, sums = arguments
        vectors = Vectors(builder, None)
        cells = [(i, j) for i in range(ROWS) for j in range(ROWS)]
        at = {(i, j): builder.add(sums, integer(BYTES * (i * ROWS + j))) for i, j in cells}
        totals = {cell: cgutils.alloca_once_value(builder, vectors.load(at[cell])) for cell in cells}
        left, right = (
            [builder.add(start, builder.mul(row, integer(i))) for i in range(ROWS)]
            for start, row in ((a, a_row), (b, b_row))
        )
        with cgutils.for_range_slice(builder, integer(0), steps, integer(1)) as (k, _):
            shift = builder.mul(k, integer(BYTES))
            x = [vectors.load(builder.add(row, shift)) for row in left]
            w = [vectors.load(builder.add(row, shift)) for row in right]
            for i, j in cells:
                builder.store(vectors.fma(x[i], w[j], builder.load(totals[i, j])), totals[i, j])
        for cell in cells:
            vectors.store(builder.load(totals[cell]), at[cell])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), codegen


def _factors(builder: Any, dy: Any, dy_row: Any, m: Any) -> list[Any]:
    """Vectors of the gradients of row m by ROWS neighboring outputs."""
    row = builder.add(dy, builder.mul(m, dy_row))
    vectors = []
    for j in range(ROWS):
        address = builder.inttoptr(builder.add(row, integer(4 * j)), ir.FloatType().as_pointer())
        vectors.append(broadcast(builder, builder.load(address, align=4), VECTOR))
    return vectors


def _prefetch(builder: Any, address: Any, write: bool) -> None:
    """Prefetches the cache line at ``address``."""
    flag, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [builder.inttoptr(address, pointer), flag(int(write)), flag(3), flag(1)])


@intrinsic
def outer(_context: Any, dy: Any, dy_row: Any, x: Any, count: Any, dw: Any, row: Any, add: Any) -> Any:
    """dw (ROWS, columns of a tile) = [dw +] the sum over ``count`` rows of dy (ROWS) times x (BLOCK). row: bytes from
    row to row of dw."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        dy, dy_row, x, count, dw, row, add = arguments
        vectors = Vectors(builder, None)
        at = {
            (j, v): builder.add(builder.add(dw, builder.mul(row, integer(j))), integer(BYTES * v))
            for j in range(ROWS)
            for v in range(PANEL)
        }
        for address in [at[j, v] for j in range(ROWS) for v in range(0, PANEL, LINE // BYTES)]:
            _prefetch(builder, builder.add(address, builder.mul(row, integer(AHEAD))), True)
        zero = splat(VECTOR, 0.0)
        totals = {
            cell: cgutils.alloca_once_value(builder, builder.select(add, vectors.load(address), zero))
            for cell, address in at.items()
        }
        with cgutils.for_range_slice(builder, integer(0), count, integer(1)) as (m, _):
            factors, source = _factors(builder, dy, dy_row, m), builder.add(x, builder.mul(m, integer(4 * BLOCK)))
            for v in range(PANEL):
                value = vectors.load(builder.add(source, integer(BYTES * v)))
                for j in range(ROWS):
                    builder.store(vectors.fma(factors[j], value, builder.load(totals[j, v])), totals[j, v])
        for cell, address in at.items():
            vectors.store(builder.load(totals[cell]), address)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6, types.boolean), codegen


@intrinsic
def prefetch_next(_context: Any, address: Any, row: Any) -> Any:
    """Prefetches a tile of the ROWS rows after those at ``address``, to be written. row: bytes from row to row."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, row = arguments
        for j in range(ROWS):
            start = builder.add(address, builder.mul(row, integer(j + ROWS)))
            for line in range(0, 4 * TILE, LINE):
                _prefetch(builder, builder.add(start, integer(line)), True)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 2), codegen


@intrinsic
def _spread(_context: Any, dy: Any, dy_row: Any, w: Any, row: Any, count: Any, dx: Any) -> Any:
    """dx (count, BLOCK) += dy (count, ROWS) times w (ROWS, columns of a tile). row: bytes from row to row of w."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        dy, dy_row, w, row, count, dx = arguments
        vectors = Vectors(builder, None)
        weights = {
            (j, v): vectors.load(builder.add(builder.add(w, builder.mul(row, integer(j))), integer(BYTES * v)))
            for j in range(ROWS)
            for v in range(PANEL)
        }
        for j in range(ROWS):
            for line in range(0, 4 * TILE, LINE):
                ahead = builder.add(builder.mul(row, integer(j + AHEAD)), integer(line))
                _prefetch(builder, builder.add(w, ahead), False)
        with cgutils.for_range_slice(builder, integer(0), count, integer(1)) as (m, _):
            factors, target = _factors(builder, dy, dy_row, m), builder.add(dx, builder.mul(m, integer(4 * BLOCK)))
            for v in range(PANEL):
                address = builder.add(target, integer(BYTES * v))
                total = vectors.load(address)
                for j in range(ROWS):
                    total = vectors.fma(factors[j], weights[j, v], total)
                vectors.store(total, address)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), codegen


@kernel
def _total(lanes):
    """The sum of LANES numbers, in pairs."""
    total = lanes.dtype.type(0)
    for i in range(LANES // 4):
        total += (lanes[i] + lanes[i + LANES // 2]) + (lanes[i + LANES // 4] + lanes[i + 3 * LANES // 4])
    return total


@loop("sums.shape[0]")
def forward(first, last, x, w, bias, slope, y, rows, sums):
    """y (rows, N) = x (M, K) wᵀ + bias (N), what is not positive times slope; w (N, K).

    M is a multiple of ROWS, at least rows; so is N, and K is one of LANES. Workspace: sums (threads, M·ROWS, LANES).
    """
    (outputs, depth), threads, line = w.shape, sums.shape[0], w.shape[1] * 4
    groups = outputs // ROWS
    for t in range(first, last):
        totals = sums[t]
        for g in range(t * groups // threads, (t + 1) * groups // threads):
            totals[:] = 0
            for k in range(0, depth, BLOCK):
                steps, right = min(BLOCK, depth - k) // LANES, w.ctypes.data + g * ROWS * line + k * 4
                for m in range(0, x.shape[0], ROWS):
                    left, out = x.ctypes.data + m * line + k * 4, totals.ctypes.data + m * ROWS * BYTES
                    _dots(left, line, right, line, steps, out)
            for m in range(rows):
                for j in range(ROWS):
                    s = _total(totals[m * ROWS + j]) + bias[g * ROWS + j]
                    y[m, g * ROWS + j] = s if s > 0 else slope * s


@loop("space.shape[0]")
def backward(start, stop, x, w, dy, dx, dw, wants_data, wants_weights, add, space):
    """dx (M, K) = dy (M, N) w where wants_data, dw (N, K) = [dw +] dyᵀ x where wants_weights.

    N is a multiple of ROWS, and K one of TILE. Workspace: space (threads, 2, M, BLOCK) takes a block of
    columns of x and of dx, whose rows would share few sets of the L1 cache where K is a multiple of 1024.
    """
    rows, depth = x.shape
    outputs, line, step, threads = dy.shape[1], depth * 4, dy.shape[1] * 4, space.shape[0]
    tiles = depth // TILE
    for t in range(start, stop):
        first, last = t * tiles // threads * TILE, (t + 1) * tiles // threads * TILE
        left, sums = space[t, 0], space[t, 1]
        for begin in range(first, last, BLOCK):
            end = min(begin + BLOCK, last)
            if wants_data:
                sums[:] = 0
            if wants_weights:
                for n in range(rows):
                    for k in range(end - begin):
                        left[n, k] = x[n, begin + k]
            for n in range(0, outputs, ROWS):
                gradients, weights = dy.ctypes.data + n * 4, n * line + begin * 4
                for k in range(0, (end - begin) * 4, TILE * 4):
                    if wants_data:
                        _spread(gradients, step, w.ctypes.data + weights + k, line, rows, sums.ctypes.data + k)
                    if wants_weights:
                        outer(gradients, step, left.ctypes.data + k, rows, dw.ctypes.data + weights + k, line, add)
            if wants_data:
                for n in range(rows):
                    for k in range(end - begin):
                        dx[n, begin + k] = sums[n, k]
