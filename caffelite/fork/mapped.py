"""Memory that two processes map: the blobs of one layer."""

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Shape = tuple[int, ...]
ALIGNMENT = 16  # numbers


class MappedMemory:
    """float32 arrays, one after another, in a file that both processes map.

    slots: the shape of each array, and how many numbers there is room for. path: of the file that the other process
    has made; None makes one.
    """

    def __init__(self, slots: Sequence[tuple[Shape, int]], path: str | None = None):
        sizes = [-(-max(math.prod(shape), room) // ALIGNMENT) * ALIGNMENT for shape, room in slots]
        size = max(4 * sum(sizes), mmap.PAGESIZE)
        if path is None:
            folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            descriptor, self.path = tempfile.mkstemp(prefix="caffelite-fork-", dir=folder)
            os.truncate(descriptor, size)
        else:
            descriptor, self.path = os.open(path, os.O_RDWR), path
        with open(descriptor, "r+b") as file:
            self.memory = np.frombuffer(mmap.mmap(file.fileno(), size), np.float32)
        starts = np.cumsum([0, *sizes])
        self.arrays = [
            self.memory[start : start + math.prod(shape)].reshape(shape)
            for start, (shape, _) in zip(starts, slots, strict=False)
        ]

    def has(self, address: int) -> bool:
        """Whether a number at this address of the process is in this memory."""
        return 0 <= address - self.memory.ctypes.data < self.memory.nbytes

    def forget(self) -> None:
        """Removes the name of the file: the memory lives as long as it is mapped."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True)
class Layout:
    """The blobs of a layer. same: for each top the bottom that is the same blob, or None. rooms: how many numbers the
    memory of each blob holds, of bottoms, of tops and of parameters; a blob that got smaller keeps its memory, and a
    loss that is no blob has none."""

    bottoms: Sequence[Shape]
    tops: Sequence[Shape]
    params: Sequence[Shape]
    same: Sequence[int | None]
    rooms: Sequence[Sequence[int]]


class Blobs:
    """What a layer's process reads and writes: data and diff of bottoms, tops and parameters, in one mapped memory.
    A top in place has the arrays of its bottom."""

    def __init__(self, layout: Layout, path: str | None = None):
        shapes = [*layout.bottoms, *layout.tops, *layout.params]
        first, last = len(layout.bottoms), len(layout.bottoms) + len(layout.tops)
        sources = list(range(len(shapes)))
        for top, bottom in enumerate(layout.same, first):
            if bottom is not None and shapes[top] == shapes[bottom]:
                sources[top] = bottom
        own = sorted(set(sources))
        bottoms, tops, params = layout.rooms
        rooms = [*bottoms, *(tops or len(layout.tops) * [0]), *params]
        self.mapped = MappedMemory(2 * [(shapes[i], rooms[i]) for i in own], path)
        arrays = self.mapped.arrays
        every = [arrays[own.index(i)] for i in sources]
        every_diff = [arrays[len(own) + own.index(i)] for i in sources]
        self.bottoms, self.tops, self.params = every[:first], every[first:last], every[last:]
        self.bottom_diffs, self.top_diffs = every_diff[:first], every_diff[first:last]
        self.param_diffs = every_diff[last:]
