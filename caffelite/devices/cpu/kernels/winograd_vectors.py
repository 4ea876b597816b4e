"""Building blocks of vector kernels in LLVM's representation, which LLVM maps to the vectors of the processor."""

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES
from .vectors import REAL, VECTOR, WORD, Vectors, broadcast, integer, leaky, splat

BYTES = 4 * LANES
Matrix = Sequence[Sequence[float]]


def product(rows: int, vectors: int) -> Any:
    """``run(a, a_row, a_k, b, b_k, c, c_row, k, add)``: c (rows, vectors·LANES) = [c +] a (rows, k) b (k,
    vectors·LANES).

    Addresses and strides in bytes: ``a_row`` and ``a_k`` of a, ``b_k`` of b's rows, ``c_row`` of c's. k is positive.
    The product stays in registers while the kernel iterates over k, and then joins c.
    """
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    @intrinsic
    def run(_context, a, a_row, a_k, b, b_k, c, c_row, k, add):
        def codegen(context, builder, _signature, arguments):
            a, a_row, a_k, b, b_k, c, c_row, k, add = arguments
            lanes = Vectors(builder, None)
            first = [builder.mul(a_row, integer(r)) for r in range(rows)]
            out = {
                (r, v): builder.add(builder.add(c, builder.mul(c_row, integer(r))), integer(BYTES * v))
                for r, v in cells
            }
            before, function = builder.basic_block, builder.function
            body, end = (function.append_basic_block(name) for name in ("body", "end"))
            builder.branch(body)
            builder.position_at_end(body)

            def variable(kind: Any, start: Any) -> Any:
                phi = builder.phi(kind)
                phi.add_incoming(start, before)
                return phi

            i, at_a, at_b = (variable(WORD, start) for start in (integer(0), a, b))
            sums = {cell: variable(VECTOR, splat(VECTOR, 0.0)) for cell in cells}
            factors = [lanes.load(builder.add(at_b, integer(BYTES * v))) for v in range(vectors)]
            totals = {}
            for r in range(rows):
                address = builder.inttoptr(builder.add(at_a, first[r]), REAL.as_pointer())
                value = broadcast(builder, builder.load(address, align=4), VECTOR)
                totals |= {(r, v): lanes.fma(value, factors[v], sums[r, v]) for v in range(vectors)}
            steps = [(i, builder.add(i, integer(1))), (at_a, builder.add(at_a, a_k)), (at_b, builder.add(at_b, b_k))]
            for phi, value in [*steps, *((sums[cell], totals[cell]) for cell in cells)]:
                phi.add_incoming(value, body)
            builder.cbranch(builder.icmp_signed("<", steps[0][1], k), body, end)
            builder.position_at_end(end)
            for cell in cells:
                present = builder.select(add, lanes.load(out[cell]), splat(VECTOR, 0.0))
                lanes.store(builder.fadd(present, totals[cell]), out[cell])
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, types.boolean), codegen

    return run


def _times(lanes: Vectors, matrix: Matrix, values: list[Any]) -> list[Any]:
    """matrix · values; factors of 1 and -1 are additions."""
    builder, totals = lanes.builder, []
    for row in matrix:
        terms = sorted(((f, v) for f, v in zip(row, values, strict=True) if f), key=lambda term: abs(term[0]) != 1)
        (factor, value), *rest = terms
        total = value if factor == 1 else builder.fmul(value, splat(VECTOR, factor))
        for factor, value in rest:
            if factor == 1:
                total = builder.fadd(total, value)
            elif factor == -1:
                total = builder.fsub(total, value)
            else:
                total = lanes.fma(value, splat(VECTOR, factor), total)
        totals.append(total)
    return totals


def both_sides(matrix: Matrix, unpack: bool = False, pack: bool = False, finish: bool = False) -> Any:
    """``run(source, target, channels)``: y = matrix · x · matrixᵀ for each of ``channels`` numbers, at least LANES.

    source: the address of a table with the n·n addresses of x, row by row; target: of y's m·m. The last vector has the
    last LANES channels, some of which the vector before it may have too. unpack: x, pack: y are packed: whole vectors
    follow each other in memory. finish: ``run(source, target, channels, bias, slope)`` adds the numbers at the address
    ``bias``, then multiplies what is not positive by ``slope``; a NaN stays.
    """
    m, n = len(matrix), len(matrix[0])

    def emit(builder: Any, source: Any, target: Any, channels: Any, bias: Any = None, slope: Any = None) -> None:
        def entry(table: Any, index: int) -> Any:
            return builder.load(builder.inttoptr(builder.add(table, integer(8 * index)), WORD.as_pointer()))

        lanes = Vectors(builder, None)
        slopes = broadcast(builder, slope, VECTOR) if finish else None
        end = builder.mul(channels, integer(4))
        last = builder.sub(end, integer(BYTES))
        with cgutils.for_range_slice(builder, integer(0), end, integer(BYTES)) as (packed, _):
            offset = builder.select(builder.icmp_signed("<", packed, last), packed, last)
            read, written = packed if unpack else offset, packed if pack else offset
            columns = []
            for j in range(n):
                column = [lanes.load(builder.add(entry(source, i * n + j), read)) for i in range(n)]
                columns.append(_times(lanes, matrix, column))
            added = lanes.load(builder.add(bias, offset)) if finish else None
            for i in range(m):
                for j, value in enumerate(_times(lanes, matrix, [column[i] for column in columns])):
                    if finish:
                        value = leaky(builder, builder.fadd(value, added), slopes)
                    lanes.store(value, builder.add(entry(target, i * m + j), written))

    def codegen(context, builder, _signature, arguments):
        emit(builder, *arguments)
        return context.get_dummy_value()

    if finish:

        @intrinsic
        def finishing(_context, source, target, channels, bias, slope):
            return types.void(*[types.intp] * 4, types.float32), codegen

        return finishing

    @intrinsic
    def run(_context, source, target, channels):
        return types.void(*[types.intp] * 3), codegen

    return run
