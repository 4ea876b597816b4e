"""Checksums of arrays, by which a change of weights is detected."""

import numpy as np

from .parallel import loop
from .settings import kernel


@kernel
def checksum(words):
    """A number that depends on each of ``words`` (uint32) and its position."""
    total = np.uint64(0)
    # Odd factors have inverses modulo 2⁶⁴: no change of a single word leaves the sum as it is.
    for i in range(words.size):
        total += np.uint64(words[i]) * np.uint64(np.uint32(2 * i + 1))
    return total


CHUNK = 1 << 18  # words whose checksum a task computes


@loop("sums.size")
def checksums(first, last, words, sums):
    """sums: the checksums of each CHUNK of ``words``."""
    for t in range(first, last):
        sums[t] = checksum(words[t * CHUNK : (t + 1) * CHUNK])
