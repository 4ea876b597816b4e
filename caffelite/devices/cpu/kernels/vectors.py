"""Vectors of numbers in LLVM's representation: loads and stores by address, with a mask where fewer numbers than a
vector has are left; float32 or bfloat16 numbers, with float32 in registers."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES

WORD, INDEX, REAL, _HALF = ir.IntType(64), ir.IntType(32), ir.FloatType(), ir.IntType(16)
VECTOR, BITS = ir.VectorType(REAL, LANES), ir.VectorType(INDEX, LANES)
_HALVES = ir.VectorType(_HALF, LANES)


def integer(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)


def splat(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES)


def broadcast(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(INDEX, 0))
    return builder.shuffle_vector(first, undefined, splat(BITS, 0))


def mask_of(builder: Any, count: Any) -> Any:
    """The mask of the first ``count`` lanes."""
    counts = broadcast(builder, builder.trunc(count, INDEX), BITS)
    return builder.icmp_signed("<", ir.Constant(BITS, list(range(LANES))), counts)


def leaky(builder: Any, value: Any, slopes: Any) -> Any:
    """What is not positive times the slope; a NaN stays."""
    positive = builder.fcmp_ordered(">", value, splat(VECTOR, 0.0))
    return builder.select(positive, value, builder.fmul(value, slopes))


class Vectors:
    """Loads and stores of LANES numbers by address. mask: of the lanes that are present; None for all."""

    def __init__(self, builder: Any, mask: Any):
        self.builder, self.mask = builder, mask
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a · b + c, with one rounding where the processor has an instruction for that."""
        return self.builder.call(self._fma, [a, b, c])

    def _masked(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, [a.type for a in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def _load(self, address: Any, kind: ir.VectorType, letter: str, size: int) -> Any:
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        if self.mask is None:
            return self.builder.load(pointer, align=size)
        arguments = [pointer, ir.Constant(INDEX, size), self.mask, splat(kind, 0)]
        return self._masked(f"llvm.masked.load.v{LANES}{letter}{8 * size}.p0", kind, arguments)

    def _store(self, value: Any, address: Any, letter: str, size: int) -> None:
        pointer = self.builder.inttoptr(address, value.type.as_pointer())
        if self.mask is None:
            self.builder.store(value, pointer, align=size)
        else:
            arguments = [value, pointer, ir.Constant(INDEX, size), self.mask]
            self._masked(f"llvm.masked.store.v{LANES}{letter}{8 * size}.p0", ir.VoidType(), arguments)

    def load(self, address: Any) -> Any:
        return self._load(address, VECTOR, "f", 4)

    def store(self, value: Any, address: Any) -> None:
        self._store(value, address, "f", 4)

    def load_image(self, address: Any, half: bool) -> Any:
        if not half:
            return self.load(address)
        wide = self.builder.zext(self._load(address, _HALVES, "i", 2), BITS)
        return self.builder.bitcast(self.builder.shl(wide, splat(BITS, 16)), VECTOR)

    def store_image(self, value: Any, address: Any, half: bool) -> None:
        """Rounds to the nearest bfloat16, even of equals; NaN to NaN."""
        if not half:
            return self.store(value, address)
        builder, bits = self.builder, self.builder.bitcast(value, BITS)
        odd = builder.and_(builder.lshr(bits, splat(BITS, 16)), splat(BITS, 1))
        rounded = builder.add(builder.add(bits, splat(BITS, 0x7FFF)), odd)
        rounded = builder.select(builder.fcmp_ordered("ord", value, value), rounded, splat(BITS, 0x7FC00000))
        self._store(builder.trunc(builder.lshr(rounded, splat(BITS, 16)), _HALVES), address, "i", 2)


def each_vector(builder: Any, channels: Any, size: int, body: Callable[[Vectors, Any, Any], None]) -> None:
    """body(vectors, offset in an image of numbers of ``size`` bytes, offset among float32) for the vectors of a
    pixel."""
    lanes = integer(LANES)
    full = builder.sdiv(channels, lanes)
    with cgutils.for_range_slice(builder, integer(0), full, integer(1)) as (k, _):
        body(Vectors(builder, None), builder.mul(k, integer(LANES * size)), builder.mul(k, integer(LANES * 4)))
    rest = builder.sub(channels, builder.mul(full, lanes))
    with builder.if_then(builder.icmp_signed(">", rest, integer(0))):
        mask = mask_of(builder, rest)
        body(Vectors(builder, mask), builder.mul(full, integer(LANES * size)), builder.mul(full, integer(LANES * 4)))


@intrinsic
def copy(_context, source, target, count):
    """Copies ``count`` float32 numbers from one address to another."""

    def codegen(context, builder, _signature, arguments):
        source, target, count = arguments
        lanes = integer(LANES)
        full = builder.mul(builder.sdiv(count, lanes), lanes)
        with cgutils.for_range_slice(builder, integer(0), full, lanes) as (k, _):
            vectors, at = Vectors(builder, None), builder.mul(k, integer(4))
            vectors.store(vectors.load(builder.add(source, at)), builder.add(target, at))
        rest = builder.sub(count, full)
        with builder.if_then(builder.icmp_signed(">", rest, integer(0))):
            vectors, at = Vectors(builder, mask_of(builder, rest)), builder.mul(full, integer(4))
            vectors.store(vectors.load(builder.add(source, at)), builder.add(target, at))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


def _interleaved(builder: Any, vectors: list[Any]) -> list[Any]:
    """LANES vectors as the columns of a square that are its rows."""
    low = [lane for i in range(LANES // 2) for lane in (i, i + LANES)]
    masks = [ir.Constant(BITS, [lane + shift for lane in low]) for shift in (0, LANES // 2)]
    for _ in range(LANES.bit_length() - 1):
        pairs = [(vectors[i], vectors[i + LANES // 2]) for i in range(LANES // 2)]
        vectors = [builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in masks]
    return vectors


@intrinsic
def transpose_block(_context, source, row, target, step, rows, columns, add):
    """Transposes a matrix (rows, columns), 1 to LANES of each: its columns become rows, ``step`` bytes apart, which
    may be negative; ``row``: bytes from row to row of the source. add: adds to what is there."""

    def codegen(context, builder, _signature, arguments):
        source, row, target, step, rows, columns, add = arguments
        across, along = Vectors(builder, mask_of(builder, columns)), Vectors(builder, mask_of(builder, rows))
        last = builder.sub(rows, integer(1))
        loaded = []
        for i in range(LANES):
            index = builder.select(builder.icmp_signed("<", integer(i), last), integer(i), last)
            loaded.append(across.load(builder.add(source, builder.mul(index, row))))
        for i, vector in enumerate(_interleaved(builder, loaded)):
            with builder.if_then(builder.icmp_signed("<", integer(i), columns)):
                address = builder.add(target, builder.mul(integer(i), step))
                with builder.if_else(add) as (adds, stores):
                    with adds:
                        along.store(builder.fadd(along.load(address), vector), address)
                    with stores:
                        along.store(vector, address)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6, types.boolean), codegen
