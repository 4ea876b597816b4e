"""Building blocks of vector kernels in LLVM's representation, which LLVM maps to the vectors of the processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES

BYTES = 4 * LANES
_WORD, _REAL = ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_REAL, LANES)
Matrix = Sequence[Sequence[float]]


def _integer(value: int) -> ir.Constant:
    return ir.Constant(_WORD, value)


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * LANES)


def _vector_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _VECTOR.as_pointer())


def _load(builder: Any, address: Any) -> Any:
    return builder.load(_vector_at(builder, address), align=4)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _vector_at(builder, address), align=4)


def _broadcast(builder: Any, value: Any) -> Any:
    undefined, zeros = (
        ir.Constant(_VECTOR, ir.Undefined),
        ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES),
    )
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, zeros)


def _fma(builder: Any) -> Callable[[Any, Any, Any], Any]:
    """a · b + c, with one rounding where the processor has an instruction for that."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return lambda a, b, c: builder.call(function, [a, b, c])


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
            fma = _fma(builder)
            first = [builder.mul(a_row, _integer(r)) for r in range(rows)]
            out = {
                (r, v): builder.add(builder.add(c, builder.mul(c_row, _integer(r))), _integer(BYTES * v))
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

            i, at_a, at_b = (variable(_WORD, start) for start in (_integer(0), a, b))
            sums = {cell: variable(_VECTOR, _constant(0.0)) for cell in cells}
            factors = [_load(builder, builder.add(at_b, _integer(BYTES * v))) for v in range(vectors)]
            totals = {}
            for r in range(rows):
                address = builder.inttoptr(builder.add(at_a, first[r]), _REAL.as_pointer())
                value = _broadcast(builder, builder.load(address, align=4))
                totals |= {(r, v): fma(value, factors[v], sums[r, v]) for v in range(vectors)}
            steps = [(i, builder.add(i, _integer(1))), (at_a, builder.add(at_a, a_k)), (at_b, builder.add(at_b, b_k))]
            for phi, value in [*steps, *((sums[cell], totals[cell]) for cell in cells)]:
                phi.add_incoming(value, body)
            builder.cbranch(builder.icmp_signed("<", steps[0][1], k), body, end)
            builder.position_at_end(end)
            for cell in cells:
                present = builder.select(add, _load(builder, out[cell]), _constant(0.0))
                _store(builder, builder.fadd(present, totals[cell]), out[cell])
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, types.boolean), codegen

    return run


def _times(builder: Any, matrix: Matrix, values: list[Any]) -> list[Any]:
    """matrix · values; factors of 1 and -1 are additions."""
    fma, totals = _fma(builder), []
    for row in matrix:
        terms = sorted(((f, v) for f, v in zip(row, values, strict=True) if f), key=lambda term: abs(term[0]) != 1)
        (factor, value), *rest = terms
        total = value if factor == 1 else builder.fmul(value, _constant(factor))
        for factor, value in rest:
            if factor == 1:
                total = builder.fadd(total, value)
            elif factor == -1:
                total = builder.fsub(total, value)
            else:
                total = fma(value, _constant(factor), total)
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
            return builder.load(builder.inttoptr(builder.add(table, _integer(8 * index)), _WORD.as_pointer()))

        slopes = _broadcast(builder, slope) if finish else None
        end = builder.mul(channels, _integer(4))
        last = builder.sub(end, _integer(BYTES))
        with cgutils.for_range_slice(builder, _integer(0), end, _integer(BYTES)) as (packed, _):
            offset = builder.select(builder.icmp_signed("<", packed, last), packed, last)
            read, written = packed if unpack else offset, packed if pack else offset
            columns = []
            for j in range(n):
                column = [_load(builder, builder.add(entry(source, i * n + j), read)) for i in range(n)]
                columns.append(_times(builder, matrix, column))
            added = _load(builder, builder.add(bias, offset)) if finish else None
            for i in range(m):
                for j, value in enumerate(_times(builder, matrix, [column[i] for column in columns])):
                    if finish:
                        value = builder.fadd(value, added)
                        positive = builder.fcmp_ordered(">", value, _constant(0.0))
                        value = builder.select(positive, value, builder.fmul(value, slopes))
                    _store(builder, value, builder.add(entry(target, i * m + j), written))

    if finish:

        @intrinsic
        def finishing(_context, source, target, channels, bias, slope):
            def codegen(context, builder, _signature, arguments):
                emit(builder, *arguments)
                return context.get_dummy_value()

            return types.void(*[types.intp] * 4, types.float32), codegen

        return finishing

    @intrinsic
    def run(_context, source, target, channels):
        def codegen(context, builder, _signature, arguments):
            emit(builder, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 3), codegen

    return run
