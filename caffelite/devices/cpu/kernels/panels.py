"""A product of few rows by weights that are packed once, for use inside a thread: the product of each step of a
recurrent layer.

Packed weights are panels of ``WIDTH`` bytes of columns; a panel has one row for each index of the sum. A tile (some
rows times a panel) stays in registers during the product; LLVM maps its vectors to those of the processor.

The dtype is float32, float64, or bfloat16 as uint16 with float32 sums. For bfloat16 a row of a panel holds two values
of each column, which processors with the instruction multiply at once.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...processor import features, has_registers
from .parallel import loop
from .settings import kernel

VECTOR = 64  # bytes
_FEATURES = features()
ROWS, VECTORS = (8, 2) if has_registers() else (6, 1)  # of a tile: as 32, or 16, registers hold
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
    """``run(a, b, sum)``: a b + sum of vectors; pairs: of words that hold two bfloat16 each, of which both products are
    added."""

    def function(name, result, *arguments):
        return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)

    lanes = kind.count
    fma = function(f"llvm.fmuladd.v{lanes}f{32 if kind.element == ir.FloatType() else 64}", kind, kind, kind, kind)
    if not pairs:
        return lambda a, b, total: builder.call(fma, [a, b, total])
    if "+avx512bf16" in _FEATURES:
        halves = ir.VectorType(_BFloat(), 2 * lanes)
        dot = function("llvm.x86.avx512bf16.dpbf16ps.512", kind, kind, halves, halves)
        return lambda a, b, total: builder.call(dot, [total, builder.bitcast(a, halves), builder.bitcast(b, halves)])

    def both(a, b, total):
        shift = ir.Constant(a.type, [16] * lanes)
        for part in (
            builder.shl,
            lambda v, _: builder.and_(v, ir.Constant(v.type, [0xFFFF0000] * lanes)),
        ):  # the first, the second
            total = builder.call(fma, [builder.bitcast(part(v, shift), kind) for v in (a, b)] + [total])
        return total

    return both


@intrinsic
def _tile(typingctx, a, row, b, c, line, depth, rows, columns, number):
    """c += a b for 1 to ROWS rows of a and c; a, b, c are addresses.

    row, line: the bytes from row to row of a and of c; depth: the panel's rows; columns: how many of its columns c has;
    number: one of the weights' type.
    """
    pairs, bits = number == types.uint16, 64 if number == types.float64 else 32

    def codegen(context, builder, signature, args):
        a, row, b, c, line, depth, rows, columns, _ = args
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

        name, mask = f"v{lanes}f{bits}.p0", ir.VectorType(ir.IntType(1), lanes)
        load = ir.FunctionType(vector, [vector.as_pointer(), index, mask, vector])
        load = cgutils.get_or_insert_function(builder.module, load, f"llvm.masked.load.{name}")
        store = ir.FunctionType(ir.VoidType(), [vector, vector.as_pointer(), index, mask])
        store = cgutils.get_or_insert_function(builder.module, store, f"llvm.masked.store.{name}")
        count, align = spread(columns, ir.VectorType(word, lanes)), ir.Constant(index, size)
        there = []
        for v in range(VECTORS):
            indices = ir.Constant(ir.VectorType(word, lanes), [v * lanes + j for j in range(lanes)])
            there.append(builder.icmp_signed("<", indices, count))

        def tile(height: int) -> None:
            sums = [cgutils.alloca_once(builder, vector) for _ in range(height * VECTORS)]
            for cell in sums:
                builder.store(zeros, cell)
            sources = [builder.add(a, builder.mul(whole(r), row)) for r in range(height)]
            with cgutils.for_range_slice(builder, whole(0), depth, whole(1)) as (k, _):
                panel = builder.add(b, builder.mul(k, whole(WIDTH)))
                weights = [
                    builder.load(pointer(builder.add(panel, whole(v * VECTOR)), factors), align=size)
                    for v in range(VECTORS)
                ]
                shift = builder.mul(k, whole(size))
                for r in range(height):
                    value = spread(
                        builder.load(pointer(builder.add(sources[r], shift), unit), align=2 if pairs else size), factors
                    )
                    for v in range(VECTORS):
                        cell = sums[r * VECTORS + v]
                        builder.store(multiply_add(value, weights[v], builder.load(cell)), cell)
            for i, cell in enumerate(sums):
                r, v = divmod(i, VECTORS)
                target = pointer(builder.add(builder.add(c, builder.mul(whole(r), line)), whole(v * VECTOR)), vector)
                total = builder.fadd(builder.call(load, [target, align, there[v], zeros]), builder.load(cell))
                builder.call(store, [total, target, align, there[v]])

        behind = builder.append_basic_block("behind")
        choice = builder.switch(rows, behind)
        for height in range(1, ROWS + 1):
            block = builder.append_basic_block(f"rows{height}")
            choice.add_case(whole(height), block)
            builder.position_at_end(block)
            tile(height)
            builder.branch(behind)
        builder.position_at_end(behind)
        return context.get_dummy_value()

    n = types.intp
    return types.void(n, n, n, n, n, n, n, n, number), codegen


@loop("packed.shape[0]")
def pack(first, last, w, turned, packed):
    """packed (panels, K, WIDTH in numbers) = w (K, M), or (M, K) where turned; zeros behind the last column."""
    width = packed.shape[2]
    columns = w.shape[0] if turned else w.shape[1]
    for p in range(first, last):
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


@kernel
def half(x):
    """The bfloat16 next to a float32, even of equals, as uint16; NaN for NaN."""
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return np.uint16((rounded if x == x else np.uint32(0x7FC00000)) >> np.uint32(16))


@kernel
def multiply(a, packed, c):
    """c (N, M) += a (N, K) times packed weights; rows of a and c may be strided."""
    width, size = WIDTH // c.itemsize, c.itemsize  # two halves are as long as their sum
    rows, tiles = a.shape[0], -(-a.shape[0] // ROWS)
    for k in range(0, packed.shape[1], DEPTH):
        depth = min(DEPTH, packed.shape[1] - k)
        for p in range(packed.shape[0]):
            panel = packed.ctypes.data + (p * packed.shape[1] + k) * WIDTH
            columns = min(width, c.shape[1] - p * width)
            for i in range(tiles):
                r, count = i * rows // tiles, (i + 1) * rows // tiles - i * rows // tiles
                source = a.ctypes.data + r * a.strides[0] + k * size
                target = c.ctypes.data + r * c.strides[0] + p * WIDTH
                _tile(source, a.strides[0], panel, target, c.strides[0], depth, count, columns, packed.dtype.type(0))
