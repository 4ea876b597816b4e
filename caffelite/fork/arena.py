"""Memory that two processes share: the blobs of one layer."""

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Shape = tuple[int, ...]
ALIGNMENT = 16  # numbers


class Arena:
    """float32 arrays of these shapes, one after another, in a file that both processes map.

    create: makes the file; else it is the one at ``path``.
    """

    def __init__(self, shapes: Sequence[Shape], path: str | None = None):
        sizes = [-(-math.prod(shape) // ALIGNMENT) * ALIGNMENT for shape in shapes]
        size = max(4 * sum(sizes), mmap.PAGESIZE)
        if path is None:
            folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            descriptor, self.path = tempfile.mkstemp(prefix="caffelite-fork-", dir=folder)
            os.truncate(descriptor, size)
        else:
            descriptor, self.path = os.open(path, os.O_RDWR), path
        with open(descriptor, "r+b") as file:
            memory = np.frombuffer(mmap.mmap(file.fileno(), size), np.float32)
        starts = np.cumsum([0, *sizes])
        self.arrays = [
            memory[start : start + math.prod(shape)].reshape(shape)
            for start, shape in zip(starts, shapes, strict=False)
        ]

    def forget(self) -> None:
        """Removes the name of the file: the memory lives as long as it is mapped."""
        Path(self.path).unlink(missing_ok=True)


class Blobs:
    """What a layer's process reads and writes: data and diff of bottoms, tops and parameters, in one arena."""

    def __init__(
        self, bottoms: Sequence[Shape], tops: Sequence[Shape], params: Sequence[Shape], path: str | None = None
    ):
        groups = (bottoms, bottoms, tops, tops, params, params)
        self.arena = Arena([shape for group in groups for shape in group], path)
        arrays = iter(self.arena.arrays)
        made = [[next(arrays) for _ in group] for group in groups]
        self.bottoms, self.bottom_diffs, self.tops, self.top_diffs, self.params, self.param_diffs = made
