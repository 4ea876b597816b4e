"""Several convolutions with constant weights in one compiled call, on the calling thread."""

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ...algorithms import LANES, PANEL
from . import columns, depthwise
from .settings import kernel

COLUMNS, DEPTHWISE = 0, 1  # kinds of steps
FIELDS = 32  # numbers that describe a step: its kind, addresses and sizes, in the order in which a step reads them
GEOMETRY = 12  # where the sizes start


def fields(kind: int, addresses: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The FIELDS numbers of a step."""
    before = [kind, *addresses]
    fields = [*before, *[0] * (GEOMETRY - len(before)), *map(int, sizes)]
    return fields + [0] * (FIELDS - len(fields))


@intrinsic
def _pointer(_context, address):
    """An address as a pointer."""

    def codegen(context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def _real(_context, bits):
    """The float32 number with these bits."""

    def codegen(context, builder, _signature, arguments):
        return builder.bitcast(builder.trunc(arguments[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), codegen


@kernel
def _columns(d):
    x, packed, starts, bias, slopes, y, block, space = d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8]
    n, h, w, c, high, wide, m, panels = d[12], d[13], d[14], d[15], d[16], d[17], d[18], d[19]
    window = d[20], d[21], d[22], d[23], d[24], d[25], d[26], d[27]
    depth, pixels = window[0] * window[1] * c, n * high * wide
    width = -(-m // LANES) * LANES
    columns.convolve_blocks(
        carray(_pointer(x), (n, h, w, c), np.float32),
        carray(_pointer(packed), (depth * width,), np.float32),
        carray(_pointer(starts), (panels + 1,), np.int64),
        carray(_pointer(bias), (width,), np.float32),
        carray(_pointer(slopes), (width,), np.float32),
        carray(_pointer(y), (pixels, m), np.float32),
        (high, wide),
        window,
        block,
        carray(_pointer(space), (block, depth), np.float32),
        carray(_pointer(space + 4 * block * depth), (PANEL * LANES,), np.float32),
        0,
        -(-pixels // block),
    )


@kernel
def _depthwise(d):
    x, packed, bias, y, slope, unused, table, zeros = d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8]
    n, h, w, c, high, wide, width, stride = d[12], d[13], d[14], d[15], d[16], d[17], d[18], d[19]
    depthwise.convolve_rows(
        carray(_pointer(x), (n, h, w, c), np.float32),
        carray(_pointer(packed), (9, width), np.float32),
        carray(_pointer(bias), (c,), np.float32),
        _real(slope),
        carray(_pointer(y), (n, high, wide, c), np.float32),
        (d[20], d[21]),
        stride,
        carray(_pointer(unused), (width,), np.float32),
        carray(_pointer(table), (depthwise.TABLE,), np.int64),
        carray(_pointer(zeros), (c,), np.float32),
        0,
        n * high,
    )


@kernel
def run(steps):
    """Runs steps (count, FIELDS), one after the other."""
    for i in range(steps.shape[0]):
        if steps[i, 0] == COLUMNS:
            _columns(steps[i])
        else:
            _depthwise(steps[i])
