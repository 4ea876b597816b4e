"""Transposes matrices of 32-bit numbers by vectors."""

from ...algorithms import LANES
from .settings import kernel
from .vectors import transpose_block


@kernel
def transpose(source, row, target, step, rows, columns, add):
    """A matrix of any size, block by block: see ``vectors.transpose_block``. Rows that are far apart, of the source or
    of the target, are finished before the next ones."""
    high, wide = -(-rows // LANES), -(-columns // LANES)
    for block in range(high * wide):
        i, j = (block % high, block // high) if step > row else (block // wide, block % wide)
        i, j = i * LANES, j * LANES
        sizes = min(LANES, rows - i), min(LANES, columns - j)
        transpose_block(source + i * row + j * 4, row, target + j * step + i * 4, step, *sizes, add)
