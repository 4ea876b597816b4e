"""Vector code of depthwise 3×3 convolutions in LLVM's representation: each channel is a lane, as channels_last images
store them. Images are of float32, or of bfloat16 as uint16; weights and sums are float32.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import VECTOR, WORD, Vectors, broadcast, each_vector, integer, leaky, splat

SIDE = 3  # of the kernel
BLOCK = 7  # outputs of a row that are computed together: the sides of ImageNet's images are multiples of it


def columns(stride: int) -> int:
    """Columns of pixels that a block of outputs reads."""
    return (BLOCK - 1) * stride + SIDE


def _entry(builder: Any, table: Any, index: int) -> Any:
    return builder.load(builder.inttoptr(builder.add(table, integer(8 * index)), WORD.as_pointer()))


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
            slopes = broadcast(builder, slope, VECTOR)
            rows = [builder.add(weights, builder.mul(pitch, integer(q))) for q in range(SIDE * SIDE)]

            def body(vectors: Vectors, at: Any, offset: Any) -> None:
                totals = [vectors.load(builder.add(bias, offset))] * BLOCK
                for i in range(SIDE):
                    factors = [vectors.load(builder.add(rows[i * SIDE + j], offset)) for j in range(SIDE)]
                    for c in range(width):
                        uses = [(p, c - p * stride) for p in range(BLOCK) if 0 <= c - p * stride < SIDE]
                        if uses:
                            address = builder.add(_entry(builder, source, i * width + c), at)
                            pixel = vectors.load_image(address, half)
                            for p, j in uses:
                                totals[p] = vectors.fma(pixel, factors[j], totals[p])
                for p in range(BLOCK):
                    address = builder.add(_entry(builder, target, p), at)
                    vectors.store_image(leaky(builder, totals[p], slopes), address, half)

            each_vector(builder, channels, 2 if half else 4, body)
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
            rows = [builder.add(sums, builder.mul(pitch, integer(q))) for q in range(SIDE * SIDE)]

            def body(vectors: Vectors, at: Any, offset: Any) -> None:
                slopes = [
                    vectors.load_image(builder.add(_entry(builder, gradients, p), at), half) for p in range(BLOCK)
                ]
                for i in range(SIDE):
                    targets = [builder.add(rows[i * SIDE + j], offset) for j in range(SIDE)]
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

            each_vector(builder, channels, 2 if half else 4, body)
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
            address = builder.add(table, builder.mul(index, integer(8)))
            return builder.load(builder.inttoptr(address, WORD.as_pointer()))

        def body(vectors: Vectors, at: Any, offset: Any) -> None:
            total = cgutils.alloca_once(builder, VECTOR)
            builder.store(splat(VECTOR, 0.0), total)
            with cgutils.for_range_slice(builder, integer(0), count, integer(1)) as (k, _):
                image = vectors.load_image(builder.add(entry(source, k), at), half)
                factor = vectors.load(builder.add(entry(factors, k), offset))
                builder.store(vectors.fma(image, factor, builder.load(total)), total)
            vectors.store_image(builder.load(total), builder.add(target, at), half)

        each_vector(builder, channels, 2 if half else 4, body)
        return context.get_dummy_value()

    n = types.intp
    return types.void(n, n, n, n, n, number), codegen
