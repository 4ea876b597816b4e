"""Vector code of depthwise 3×3 convolutions in LLVM's representation: each channel is a lane, as channels_last images
store them. Images are of float32, or of bfloat16 as uint16; weights and sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...algorithms import LANES

SIDE = 3  # of the kernel
BLOCK = 7  # outputs of a row that are computed together: the sides of ImageNet's images are multiples of it
_WORD, _INDEX, _REAL, _HALF = ir.IntType(64), ir.IntType(32), ir.FloatType(), ir.IntType(16)
_VECTOR, _BITS = ir.VectorType(_REAL, LANES), ir.VectorType(_INDEX, LANES)
_HALVES, _MASK = ir.VectorType(_HALF, LANES), ir.VectorType(ir.IntType(1), LANES)


def columns(stride: int) -> int:
    """Columns of pixels that a block of outputs reads."""
    return (BLOCK - 1) * stride + SIDE


def _integer(value: int) -> ir.Constant:
    return ir.Constant(_WORD, value)


def _splat(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES)


def _broadcast(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, undefined, _splat(_BITS, 0))


class _Vectors:
    """Loads and stores of LANES numbers by address. mask: of the lanes that are present; None for all."""

    def __init__(self, builder: Any, mask: Any):
        self.builder, self.mask = builder, mask
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a · b + c with one rounding."""
        return self.builder.call(self._fma, [a, b, c])

    def _masked(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, [a.type for a in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def _load(self, address: Any, kind: ir.VectorType, letter: str, size: int) -> Any:
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        if self.mask is None:
            return self.builder.load(pointer, align=size)
        arguments = [pointer, ir.Constant(_INDEX, size), self.mask, _splat(kind, 0)]
        return self._masked(f"llvm.masked.load.v{LANES}{letter}{8 * size}.p0", kind, arguments)

    def _store(self, value: Any, address: Any, letter: str, size: int) -> None:
        pointer = self.builder.inttoptr(address, value.type.as_pointer())
        if self.mask is None:
            self.builder.store(value, pointer, align=size)
        else:
            arguments = [value, pointer, ir.Constant(_INDEX, size), self.mask]
            self._masked(f"llvm.masked.store.v{LANES}{letter}{8 * size}.p0", ir.VoidType(), arguments)

    def load(self, address: Any) -> Any:
        return self._load(address, _VECTOR, "f", 4)

    def store(self, value: Any, address: Any) -> None:
        self._store(value, address, "f", 4)

    def load_image(self, address: Any, half: bool) -> Any:
        if not half:
            return self.load(address)
        wide = self.builder.zext(self._load(address, _HALVES, "i", 2), _BITS)
        return self.builder.bitcast(self.builder.shl(wide, _splat(_BITS, 16)), _VECTOR)

    def store_image(self, value: Any, address: Any, half: bool) -> None:
        """Rounds to the nearest bfloat16, even of equals; NaN to NaN."""
        if not half:
            return self.store(value, address)
        builder, bits = self.builder, self.builder.bitcast(value, _BITS)
        odd = builder.and_(builder.lshr(bits, _splat(_BITS, 16)), _splat(_BITS, 1))
        rounded = builder.add(builder.add(bits, _splat(_BITS, 0x7FFF)), odd)
        rounded = builder.select(builder.fcmp_ordered("ord", value, value), rounded, _splat(_BITS, 0x7FC00000))
        self._store(builder.trunc(builder.lshr(rounded, _splat(_BITS, 16)), _HALVES), address, "i", 2)


def _each_vector(builder: Any, channels: Any, size: int, body: Callable[[_Vectors, Any, Any], None]) -> None:
    """body(vectors, offset in an image of numbers of ``size`` bytes, offset among float32) for the vectors of a
    pixel."""
    lanes = _integer(LANES)
    full = builder.sdiv(channels, lanes)
    with cgutils.for_range_slice(builder, _integer(0), full, _integer(1)) as (k, _):
        body(_Vectors(builder, None), builder.mul(k, _integer(LANES * size)), builder.mul(k, _integer(LANES * 4)))
    rest = builder.sub(channels, builder.mul(full, lanes))
    with builder.if_then(builder.icmp_signed(">", rest, _integer(0))):
        count = _broadcast(builder, builder.trunc(rest, _INDEX), _BITS)
        mask = builder.icmp_signed("<", ir.Constant(_BITS, list(range(LANES))), count)
        body(_Vectors(builder, mask), builder.mul(full, _integer(LANES * size)), builder.mul(full, _integer(LANES * 4)))


def _entry(builder: Any, table: Any, index: int) -> Any:
    return builder.load(builder.inttoptr(builder.add(table, _integer(8 * index)), _WORD.as_pointer()))


def _leaky(builder: Any, value: Any, slopes: Any) -> Any:
    """What is not positive times the slope; a NaN stays."""
    positive = builder.fcmp_ordered(">", value, _splat(_VECTOR, 0.0))
    return builder.select(positive, value, builder.fmul(value, slopes))


def block(stride: int) -> Any:
    """``run(source, target, weights, pitch, bias, slope, channels, number)``: BLOCK pixels of a convolution's row.

    source: the address of a table with the 3·columns addresses of the pixels read, row by row; target: of those
    written. weights: 9 rows, ``pitch`` bytes apart, of one number for each channel; bias: such a row. number: one of
    the images' type.
    """
    width = columns(stride)

    @intrinsic
    def run(_context, source, target, weights, pitch, bias, slope, channels, number):
        half = number == types.uint16

        def codegen(context, builder, _signature, arguments):
            source, target, weights, pitch, bias, slope, channels, _ = arguments
            slopes = _broadcast(builder, slope, _VECTOR)
            rows = [builder.add(weights, builder.mul(pitch, _integer(q))) for q in range(SIDE * SIDE)]

            def body(vectors: _Vectors, at: Any, place: Any) -> None:
                totals = [vectors.load(builder.add(bias, place))] * BLOCK
                for i in range(SIDE):
                    factors = [vectors.load(builder.add(rows[i * SIDE + j], place)) for j in range(SIDE)]
                    for c in range(width):
                        uses = [(p, c - p * stride) for p in range(BLOCK) if 0 <= c - p * stride < SIDE]
                        if uses:
                            address = builder.add(_entry(builder, source, i * width + c), at)
                            pixel = vectors.load_image(address, half)
                            for p, j in uses:
                                totals[p] = vectors.fma(pixel, factors[j], totals[p])
                for p in range(BLOCK):
                    address = builder.add(_entry(builder, target, p), at)
                    vectors.store_image(_leaky(builder, totals[p], slopes), address, half)

            _each_vector(builder, channels, 2 if half else 4, body)
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, n, n, types.float32, n, number), codegen

    return run


def block_gradient(stride: int) -> Any:
    """``run(source, gradients, sums, pitch, channels, number)``: adds to ``sums``, 9 rows as the weights in ``block``,
    the products of BLOCK pixels of a row of gradients, by a table of addresses, with the pixels of ``source``."""
    width = columns(stride)

    @intrinsic
    def run(_context, source, gradients, sums, pitch, channels, number):
        half = number == types.uint16

        def codegen(context, builder, _signature, arguments):
            source, gradients, sums, pitch, channels, _ = arguments
            rows = [builder.add(sums, builder.mul(pitch, _integer(q))) for q in range(SIDE * SIDE)]

            def body(vectors: _Vectors, at: Any, place: Any) -> None:
                slopes = [
                    vectors.load_image(builder.add(_entry(builder, gradients, p), at), half) for p in range(BLOCK)
                ]
                for i in range(SIDE):
                    targets = [builder.add(rows[i * SIDE + j], place) for j in range(SIDE)]
                    totals = [vectors.load(address) for address in targets]
                    for c in range(width):
                        uses = [(p, c - p * stride) for p in range(BLOCK) if 0 <= c - p * stride < SIDE]
                        if uses:
                            address = builder.add(_entry(builder, source, i * width + c), at)
                            pixel = vectors.load_image(address, half)
                            for p, j in uses:
                                totals[j] = vectors.fma(pixel, slopes[p], totals[j])
                    for address, total in zip(targets, totals, strict=True):
                        vectors.store(total, address)

            _each_vector(builder, channels, 2 if half else 4, body)
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, n, n, number), codegen

    return run


@intrinsic
def pixel(_context, source, factors, count, target, channels, number):
    """A pixel (C) at ``target`` = the sum of ``count`` pixels times rows of weights, by tables of their addresses."""
    half = number == types.uint16

    def codegen(context, builder, _signature, arguments):
        source, factors, count, target, channels, _ = arguments

        def entry(table: Any, index: Any) -> Any:
            place = builder.add(table, builder.mul(index, _integer(8)))
            return builder.load(builder.inttoptr(place, _WORD.as_pointer()))

        def body(vectors: _Vectors, at: Any, place: Any) -> None:
            total = cgutils.alloca_once(builder, _VECTOR)
            builder.store(_splat(_VECTOR, 0.0), total)
            with cgutils.for_range_slice(builder, _integer(0), count, _integer(1)) as (k, _):
                image = vectors.load_image(builder.add(entry(source, k), at), half)
                factor = vectors.load(builder.add(entry(factors, k), place))
                builder.store(vectors.fma(image, factor, builder.load(total)), total)
            vectors.store_image(builder.load(total), builder.add(target, at), half)

        _each_vector(builder, channels, 2 if half else 4, body)
        return context.get_dummy_value()

    n = types.intp
    return types.void(n, n, n, n, n, number), codegen
