"""What the host hands a net's passes on a GPU: batches, rates, the clock. All that changes from one iteration to the
next comes this way, so that the iteration itself is the same kernels on the same addresses each time and can be a CUDA
graph.

There are two halves, each in pinned memory and on the device: while the passes of one run, the other is filled and
copied. A half has room for several passes, which one launch then runs.
"""

from __future__ import annotations

import math

import numpy as np

from .streams import CopyStream

HALVES = 2
DEPTH = 16  # passes of a half, at most
ROOM = 32 << 20  # bytes that several passes may take; else a half has room for one
ALIGN = 256


class InputBuffer:
    """``begin``, put fields for passes 0, 1 …, ``send``; then ``use`` says which of them follows. What a half held is
    free again when the half after it begins."""

    def __init__(self, device, seed: int = 0):
        self.seed = seed
        self._device, self._fields, self._size = device, [], 0
        self._lane = CopyStream(device.backend, HALVES)
        self._host = self._memory = None
        self.half = self.which = 0
        self._began = False
        self.clock = self.field((4,), np.uint32)

    def field(self, shape: tuple[int, ...], dtype=None) -> Field:
        """Room for an array of each pass."""
        dtype = np.dtype(dtype or self._device.dtype)
        found = Field(self, self._size, tuple(shape), dtype)
        self._fields.append(found)
        self._size += -(-max(1, math.prod(shape) * dtype.itemsize) // ALIGN) * ALIGN
        self._host = None
        return found

    @property
    def depth(self) -> int:
        """How many passes can be prepared at once."""
        return DEPTH if self._size * HALVES * DEPTH <= ROOM else 1

    def begin(self) -> None:
        """The passes before have been queued."""
        self.open()
        if self._began:
            self._lane.used(self.half)
        self._began = True
        self.half = (self.half + 1) % HALVES
        self._lane.wait(self.half)

    def wait_before(self) -> None:
        """Returns when what was copied for the half before may be overwritten."""
        self._lane.wait((self.half - 1) % HALVES)

    def put_clock(self, which: int, iteration: int, part: int) -> None:
        self.clock.put(
            which, np.array([self.seed & 0xFFFFFFFF, self.seed >> 32, iteration & 0xFFFFFFFF, part], np.uint32)
        )

    def send(self, count: int = 1) -> None:
        first = self.half * self.depth
        self.carry(self._memory[first : first + count], self._host[first : first + count])
        self.use(0)

    def carry(self, array, host: np.ndarray) -> None:
        """Copies beside the computing, once nobody reads this half any more; what is queued from now on waits for
        it."""
        self._lane.upload(self.half, array, host)

    def room(self, shape: tuple[int, ...], dtype):
        """Memory of the device that ``carry`` may write to at once: what used it before has been computed by then."""
        array = self._device.empty(shape, dtype)
        self._lane.follow()
        return array

    def use(self, which: int) -> None:
        """What follows is pass ``which`` of the half."""
        self.which = which

    @property
    def slot(self) -> int:
        return self.half * self.depth + self.which

    def open(self) -> None:
        """Memory for all fields, where there is none yet. Graphs that read from older memory are void."""
        if self._host is not None:
            return
        self._device.synchronize()
        shape = HALVES * self.depth, self._size
        self._host = self._device.backend.pinned(shape, np.dtype(np.uint8))
        self._memory = self._device.empty(shape, np.uint8)
        self._device.generation += 1
        for field in self._fields:
            field.bind(self._host, self._memory, self._device)


class Field:
    """An array that each pass has its own of; ``array`` is that of the pass in use."""

    def __init__(self, input_buffer: InputBuffer, offset: int, shape: tuple[int, ...], dtype: np.dtype):
        self._inlet, self._offset, self._shape, self._dtype = input_buffer, offset, shape, dtype

    def bind(self, host: np.ndarray, memory, device) -> None:
        count = math.prod(self._shape) * self._dtype.itemsize
        self._device = device
        self._rows = [row[self._offset : self._offset + count].view(self._dtype).reshape(self._shape) for row in host]
        self._arrays = [device.view(row, self._offset, self._shape, self._dtype) for row in memory]

    def put(self, which: int, values: np.ndarray) -> None:
        """For pass ``which`` of the half that was begun."""
        self._rows[self._inlet.half * self._inlet.depth + which][...] = values

    def renew(self, values: np.ndarray) -> None:
        """Other values for the pass in use, though it was sent."""
        self._inlet.open()
        self._device.upload(self.array, values)

    @property
    def array(self):
        return self._arrays[self._inlet.slot]

    def copy_to(self, target) -> None:
        self._device.copy(self.array, target)


class Ring:
    """The last ``rows`` of what was appended, each ``width`` numbers. The device counts, so that appending can be
    captured."""

    def __init__(self, device, rows: int, width: int = 1):
        self._device, self._rows, self._width = device, rows, width
        self._array, self._count = device.zeros((rows, width)), device.zeros(1, np.int64)
        self._append = device.kernel("elementwise", "append", 1, rows, width, size=rows * width)

    def __len__(self) -> int:
        return self._rows

    def append(self, source, divisor: float = 1.0, clear: bool = False) -> None:
        """source / divisor; clear: source becomes 0."""
        self._append(source, self._array, self._count, float(divisor), clear)

    def reset(self, rows: np.ndarray) -> None:
        """Holds these rows (count, width) and no others."""
        held = np.zeros((self._rows, self._width), self._device.dtype)
        held[: len(rows)] = rows
        self._device.upload(self._array, held)
        self._device.upload(self._count, np.array([len(rows)]))

    def last(self, count: int, total: int) -> np.ndarray:
        """The ``count`` rows that were appended last, oldest first, of ``total`` ever appended."""
        return self._device.download(self._array)[np.arange(total - count, total) % self._rows]
