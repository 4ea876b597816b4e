"""A product of few rows by weights packed once, for use inside a thread: what a recurrent layer multiplies by at every step.

Packed weights are panels of ``WIDTH`` bytes of columns, a row of a panel for each number that is summed over. A tile, some rows times a
panel, stays in registers meanwhile; LLVM turns its vectors into what the processor has.
"""

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .settings import PARALLEL, SERIAL

VECTOR = 64  # bytes
ROWS, VECTORS = (8, 2) if "+avx512f" in llvm.get_host_cpu_features().flatten() else (6, 1)  # of a tile: as 32, or 16, registers hold
WIDTH = VECTORS * VECTOR
DEPTH = 256  # numbers summed before they join the total, as BLAS does it: longer sums round worse


def _tile(rows: int):
    """``tile(a, row, b, c, line, depth, left, columns, real)``: c [+]= a b for up to ``rows`` rows; a, b, c are addresses.

    row, line: the bytes from row to row of a and of c; left: how many rows there are; columns: how many of the panel's; real: a number
    of the arrays' type.
    """

    @intrinsic
    def tile(typingctx, a, row, b, c, line, depth, left, columns, real):
        def codegen(context, builder, signature, args):
            a, row, b, c, line, depth, left, columns, _ = args
            number = context.get_value_type(real)
            lanes = VECTOR // (real.bitwidth // 8)
            word, vector = ir.IntType(64), ir.VectorType(number, lanes)
            spread = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            undefined, blank = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * lanes)
            kind = f"v{lanes}f{real.bitwidth}"

            def whole(value: int):
                return ir.Constant(word, value)

            def function(name: str, result, *arguments):
                return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)

            def pointer(address, to):
                return builder.inttoptr(address, to.as_pointer())

            last = builder.sub(left, whole(1))
            places = [whole(r) for r in range(rows)]  # rows that are not there are the last again
            places = [builder.select(builder.icmp_signed("<", p, last), p, last) for p in places]
            sources = [builder.add(a, builder.mul(p, row)) for p in places]
            fma = function(f"llvm.fma.{kind}", vector, vector, vector, vector)
            sums = [cgutils.alloca_once_value(builder, blank) for _ in range(rows * VECTORS)]
            with cgutils.for_range_slice(builder, whole(0), depth, whole(1)) as (k, _):
                panel = builder.add(b, builder.mul(k, whole(WIDTH)))
                weights = [builder.load(pointer(builder.add(panel, whole(v * VECTOR)), vector), align=8) for v in range(VECTORS)]
                shift = builder.mul(k, whole(real.bitwidth // 8))
                for r in range(rows):
                    value = builder.load(pointer(builder.add(sources[r], shift), number))
                    value = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
                    value = builder.shuffle_vector(value, undefined, spread)
                    for v in range(VECTORS):
                        place = sums[r * VECTORS + v]
                        builder.store(builder.call(fma, [value, weights[v], builder.load(place)]), place)

            mask = ir.VectorType(ir.IntType(1), lanes)
            load = function(f"llvm.masked.load.{kind}.p0", vector, vector.as_pointer(), ir.IntType(32), mask, vector)
            store = function(f"llvm.masked.store.{kind}.p0", ir.VoidType(), vector, vector.as_pointer(), ir.IntType(32), mask)
            count = builder.insert_element(ir.Constant(ir.VectorType(word, lanes), ir.Undefined), columns, ir.Constant(ir.IntType(32), 0))
            count = builder.shuffle_vector(count, ir.Constant(ir.VectorType(word, lanes), ir.Undefined), spread)
            align, results = ir.Constant(ir.IntType(32), real.bitwidth // 8), []
            for i, place in enumerate(sums):
                r, v = divmod(i, VECTORS)
                numbers = ir.Constant(ir.VectorType(word, lanes), [v * lanes + j for j in range(lanes)])
                there = builder.icmp_signed("<", numbers, count)
                target = pointer(builder.add(builder.add(c, builder.mul(places[r], line)), whole(v * VECTOR)), vector)
                before = builder.call(load, [target, align, there, blank])
                results.append((builder.fadd(before, builder.load(place)), target, align, there))
            for result in results:  # all were read before: a row that stands for others is written the same again
                builder.call(store, result)
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, n, n, n, n, n, real), codegen

    return tile


_tile_of_many, _tile_of_one = _tile(ROWS), _tile(1)


@njit(**PARALLEL)
def pack(w, turned, packed):
    """packed (panels, K, WIDTH in numbers) = w (K, M), or (M, K) where turned; zeros behind the last column."""
    width = packed.shape[2]
    columns = w.shape[0] if turned else w.shape[1]
    for p in prange(packed.shape[0]):
        panel = packed[p]
        present = min(width, columns - p * width)
        if turned:
            for j in range(present):
                for k in range(panel.shape[0]):
                    panel[k, j] = w[p * width + j, k]
        else:
            for k in range(panel.shape[0]):
                for j in range(present):
                    panel[k, j] = w[k, p * width + j]
        panel[:, present:] = 0


@njit(**SERIAL)
def multiply(a, packed, c):
    """c (N, M) += a (N, K) by packed weights; rows of a and c may lie apart."""
    width, real = packed.shape[2], packed.itemsize
    for k in range(0, a.shape[1], DEPTH):
        depth = min(DEPTH, a.shape[1] - k)
        for p in range(packed.shape[0]):
            panel = packed.ctypes.data + (p * packed.shape[1] + k) * WIDTH
            columns = min(width, c.shape[1] - p * width)
            for r in range(0, a.shape[0], ROWS):
                source, target = a.ctypes.data + r * a.strides[0] + k * real, c.ctypes.data + r * c.strides[0] + p * WIDTH
                left, zero = min(ROWS, a.shape[0] - r), packed.dtype.type(0)
                if left == 1:
                    _tile_of_one(source, a.strides[0], panel, target, c.strides[0], depth, left, columns, zero)
                else:
                    _tile_of_many(source, a.strides[0], panel, target, c.strides[0], depth, left, columns, zero)
