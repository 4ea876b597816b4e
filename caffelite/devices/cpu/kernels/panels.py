"""A product of few rows by weights packed once, for use inside a thread: what a recurrent layer multiplies by at every step.

Packed weights are panels of ``WIDTH`` bytes of columns, a row of a panel for each number that is summed over. A tile, some rows times a
panel, stays in registers meanwhile; LLVM turns its vectors into what the processor has.

Numbers are float32, float64, or bfloat16 as uint16 with sums in float32: then a row of a panel holds two numbers of each column, which
processors with the instruction multiply at once.
"""

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .settings import PARALLEL, SERIAL

VECTOR = 64  # bytes
_FEATURES = llvm.get_host_cpu_features().flatten()
ROWS, VECTORS = (8, 2) if "+avx512f" in _FEATURES else (6, 1)  # of a tile: as 32, or 16, registers hold
WIDTH = VECTORS * VECTOR
DEPTH = 256  # rows of a panel summed before they join the total, as BLAS does it: longer sums round worse


class _BFloat(ir.Type):
    """LLVM's bfloat, for which llvmlite has no name."""

    def _to_string(self):
        return "bfloat"

    def __eq__(self, other):
        return isinstance(other, type(self))

    def __hash__(self):
        return hash(type(self))


def _multiply_add(builder, kind, pairs: bool):
    """``run(a, b, sum)``: a b + sum of vectors; pairs: of words that hold two bfloat16 each, of which both products are added."""

    def function(name, result, *arguments):
        return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)

    lanes = kind.count
    fma = function(f"llvm.fma.v{lanes}f{32 if kind.element == ir.FloatType() else 64}", kind, kind, kind, kind)
    if not pairs:
        return lambda a, b, total: builder.call(fma, [a, b, total])
    if "+avx512bf16" in _FEATURES:
        halves = ir.VectorType(_BFloat(), 2 * lanes)
        dot = function("llvm.x86.avx512bf16.dpbf16ps.512", kind, kind, halves, halves)
        return lambda a, b, total: builder.call(dot, [total, builder.bitcast(a, halves), builder.bitcast(b, halves)])

    def both(a, b, total):
        shift = ir.Constant(a.type, [16] * lanes)
        for part in (builder.shl, lambda v, _: builder.and_(v, ir.Constant(v.type, [0xFFFF0000] * lanes))):  # the first, the second
            total = builder.call(fma, [builder.bitcast(part(v, shift), kind) for v in (a, b)] + [total])
        return total

    return both


def _tile(rows: int):
    """``tile(a, row, b, c, line, depth, left, columns, number)``: c += a b for up to ``rows`` rows; a, b, c are addresses.

    row, line: the bytes from row to row of a and of c; left: how many rows there are; columns: how many of the panel's; number: one of
    the weights' type.
    """

    @intrinsic
    def tile(typingctx, a, row, b, c, line, depth, left, columns, number):
        pairs, bits = number == types.uint16, 64 if number == types.float64 else 32

        def codegen(context, builder, signature, args):
            a, row, b, c, line, depth, left, columns, _ = args
            word, index, real = ir.IntType(64), ir.IntType(32), ir.DoubleType() if bits == 64 else ir.FloatType()
            lanes, size = VECTOR * 8 // bits, bits // 8
            vector, unit = ir.VectorType(real, lanes), index if pairs else real
            factors, zeros = ir.VectorType(unit, lanes), ir.Constant(vector, [0.0] * lanes)
            multiply_add = _multiply_add(builder, vector, pairs)

            def whole(value: int):
                return ir.Constant(word, value)

            def pointer(address, to):
                return builder.inttoptr(address, to.as_pointer())

            def spread(value, kind):
                undefined = ir.Constant(kind, ir.Undefined)
                one = builder.insert_element(undefined, value, ir.Constant(index, 0))
                return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(index, lanes), [0] * lanes))

            last = builder.sub(left, whole(1))
            places = [whole(r) for r in range(rows)]  # rows that are not there are the last again
            places = [builder.select(builder.icmp_signed("<", p, last), p, last) for p in places]
            sources = [builder.add(a, builder.mul(p, row)) for p in places]
            sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(rows * VECTORS)]
            with cgutils.for_range_slice(builder, whole(0), depth, whole(1)) as (k, _):
                panel = builder.add(b, builder.mul(k, whole(WIDTH)))
                weights = [builder.load(pointer(builder.add(panel, whole(v * VECTOR)), factors), align=size) for v in range(VECTORS)]
                shift = builder.mul(k, whole(size))
                for r in range(rows):
                    value = spread(builder.load(pointer(builder.add(sources[r], shift), unit), align=2 if pairs else size), factors)
                    for v in range(VECTORS):
                        place = sums[r * VECTORS + v]
                        builder.store(multiply_add(value, weights[v], builder.load(place)), place)

            kind, mask = f"v{lanes}f{bits}.p0", ir.VectorType(ir.IntType(1), lanes)
            load = ir.FunctionType(vector, [vector.as_pointer(), index, mask, vector])
            load = cgutils.get_or_insert_function(builder.module, load, f"llvm.masked.load.{kind}")
            store = ir.FunctionType(ir.VoidType(), [vector, vector.as_pointer(), index, mask])
            store = cgutils.get_or_insert_function(builder.module, store, f"llvm.masked.store.{kind}")
            count, align, results = spread(columns, ir.VectorType(word, lanes)), ir.Constant(index, size), []
            for i, place in enumerate(sums):
                r, v = divmod(i, VECTORS)
                numbers = ir.Constant(ir.VectorType(word, lanes), [v * lanes + j for j in range(lanes)])
                there = builder.icmp_signed("<", numbers, count)
                target = pointer(builder.add(builder.add(c, builder.mul(places[r], line)), whole(v * VECTOR)), vector)
                before = builder.call(load, [target, align, there, zeros])
                results.append((builder.fadd(before, builder.load(place)), target, align, there))
            for result in results:  # all were read before: a row that stands for others is written the same again
                builder.call(store, result)
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, n, n, n, n, n, number), codegen

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
def half(x):
    """The bfloat16 next to a float32, even of equals, as uint16; NaN for NaN."""
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return np.uint16((rounded if x == x else np.uint32(0x7FC00000)) >> np.uint32(16))


@njit(**PARALLEL)
def pack_halves(w, turned, packed):
    """As ``pack``, w float32 and packed (panels, K / 2, WIDTH / 2 of uint16), each row of it pairs of numbers."""
    width, columns = packed.shape[2] // 2, w.shape[0] if turned else w.shape[1]
    for p in prange(packed.shape[0]):
        panel = packed[p]
        present = min(width, columns - p * width)
        if turned:
            for j in range(present):
                for k in range(2 * panel.shape[0]):
                    panel[k // 2, 2 * j + k % 2] = half(w[p * width + j, k])
        else:
            for k in range(2 * panel.shape[0]):
                for j in range(present):
                    panel[k // 2, 2 * j + k % 2] = half(w[k, p * width + j])
        panel[:, 2 * present :] = 0


@njit(**SERIAL)
def multiply(a, packed, c):
    """c (N, M) += a (N, K) by packed weights; rows of a and c may lie apart."""
    width, size = WIDTH // c.itemsize, c.itemsize  # two halves are as long as their sum
    for k in range(0, packed.shape[1], DEPTH):
        depth = min(DEPTH, packed.shape[1] - k)
        for p in range(packed.shape[0]):
            panel = packed.ctypes.data + (p * packed.shape[1] + k) * WIDTH
            columns = min(width, c.shape[1] - p * width)
            for r in range(0, a.shape[0], ROWS):
                source, target = a.ctypes.data + r * a.strides[0] + k * size, c.ctypes.data + r * c.strides[0] + p * WIDTH
                left, zero = min(ROWS, a.shape[0] - r), packed.dtype.type(0)
                if left == 1:
                    _tile_of_one(source, a.strides[0], panel, target, c.strides[0], depth, left, columns, zero)
                else:
                    _tile_of_many(source, a.strides[0], panel, target, c.strides[0], depth, left, columns, zero)
