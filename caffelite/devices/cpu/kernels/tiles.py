"""Tiles of a matrix product that stay in registers until bias and slopes have been applied, in LLVM's
representation."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import LANES, REAL, VECTOR, Vectors, broadcast, integer, leaky, mask_of, splat

BYTES = 4 * LANES
REGISTERS = 32 if LANES == 16 else 16


class _Reload(ir.LoadInstr):
    """A load that LLVM makes an operand of the instruction that needs it. It would keep the value of a plain one in a
    register, for which it would spill a sum."""

    def descr(self, buf: Any) -> None:
        (pointer,) = self.operands
        buf.append(f"load volatile {self.type}, {pointer.type} {pointer.get_reference()}, align 4\n")


def _reload(builder: Any, address: Any) -> Any:
    load = _Reload(builder.block, builder.inttoptr(address, VECTOR.as_pointer()), typ=VECTOR)
    builder._insert(load)
    return load


def tile(rows: int, vectors: int) -> Any:
    """``run(a, a_row, count, pieces, piece, length, b, y, y_row, unused, bias, slopes, channels)``: the first ``count``
    rows, at most ``rows``, of y (channels) = a (depth) b (depth, vectors·LANES) + bias, what is not positive times
    slopes. A row of a is ``pieces`` of ``length`` numbers, ``piece`` bytes apart.

    Addresses, and the bytes from row to row of a and y. unused: of vectors·LANES numbers that nobody reads. bias and
    slopes have vectors·LANES numbers; channels: how many y has, more than (vectors - 1)·LANES.
    """
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    held = min(vectors, REGISTERS - len(cells) - 2)  # vectors of b that are in registers; two more are needed

    @intrinsic
    def run(_context, a, a_row, count, pieces, piece, length, b, y, y_row, unused, bias, slopes, channels):
        def codegen(context, builder, _signature, arguments):
            a, a_row, count, pieces, piece, length, b, y, y_row, unused, bias, slopes, channels = arguments
            plain = Vectors(builder, None)
            sources, targets = [a], [y]
            for r in range(1, rows):
                present = builder.icmp_signed("<", integer(r), count)
                sources.append(builder.select(present, builder.add(a, builder.mul(a_row, integer(r))), a))
                targets.append(builder.select(present, builder.add(y, builder.mul(y_row, integer(r))), unused))
            sums = {cell: cgutils.alloca_once_value(builder, splat(VECTOR, 0.0)) for cell in cells}
            with cgutils.for_range(builder, pieces) as outer, cgutils.for_range(builder, length) as inner:
                at = builder.add(builder.mul(outer.index, piece), builder.mul(inner.index, integer(4)))
                k = builder.add(builder.mul(outer.index, length), inner.index)
                row = builder.add(b, builder.mul(k, integer(vectors * BYTES)))
                addresses = [builder.add(row, integer(BYTES * v)) for v in range(vectors)]
                factors = [plain.load(address) for address in addresses[:held]]
                for r in range(rows):
                    address = builder.inttoptr(builder.add(sources[r], at), REAL.as_pointer())
                    value = broadcast(builder, builder.load(address, align=4), VECTOR)
                    for v in range(vectors):
                        factor = factors[v] if v < held else _reload(builder, addresses[v])
                        builder.store(plain.fma(value, factor, builder.load(sums[r, v])), sums[r, v])
            last = Vectors(builder, mask_of(builder, builder.sub(channels, integer(LANES * (vectors - 1)))))
            for v in range(vectors):
                shift = integer(BYTES * v)
                added, bends = (plain.load(builder.add(address, shift)) for address in (bias, slopes))
                for r in range(rows):
                    value = leaky(builder, builder.fadd(builder.load(sums[r, v]), added), bends)
                    (last if v == vectors - 1 else plain).store(value, builder.add(targets[r], shift))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 13), codegen

    return run
