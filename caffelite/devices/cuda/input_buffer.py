"""A GPU's input buffer: batches, learning rates and the clock of the next passes.

All values that change between iterations go through it. So each iteration runs the same kernels on the same addresses
and can be a CUDA graph.

It has two banks, each in pinned memory and on the device: while the passes of one bank run, the other is filled and
copied. A bank holds several passes where they are small; one launch then runs them all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..types import Array
from .kernels import Kernels
from .streams import CopyStream

BANKS = 2
DEPTH = 16  # passes of a bank, at most
MOST_BYTES = 32 << 20  # of both banks where they hold several passes; else each holds one
ALIGN = 256


class InputBuffer:
    """``begin``, set the fields of passes 0, 1, …, ``send``; then ``select`` chooses the pass that is queued next. A
    bank may be overwritten when the passes of the bank after it begin. seed: key of the random numbers."""

    def __init__(self, device: Kernels, seed: int = 0):
        self.seed = seed
        self._device, self._size, self._least = device, 0, 1
        self._fields: list[Field] = []
        self._copies = CopyStream(device.backend, BANKS)
        self._host: np.ndarray | None = None
        self._memory: Array = None
        self.bank = self._pass = 0
        self._began = False
        self._clock = self.field((4,), np.uint32)

    def field(self, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> Field:
        """Adds an array that each pass has its own values of."""
        dtype = np.dtype(dtype or self._device.dtype)
        added = Field(self, self._device, self._size, tuple(shape), dtype)
        self._fields.append(added)
        self._size += -(-max(1, math.prod(shape) * dtype.itemsize) // ALIGN) * ALIGN
        self._host = None
        return added

    @property
    def depth(self) -> int:
        """How many passes can be prepared at once."""
        return max(DEPTH if self._size * BANKS * DEPTH <= MOST_BYTES else 1, self._least)

    def require_depth(self, passes: int) -> None:
        self._least, self._host = passes, None

    @property
    def clock(self) -> tuple[int, int]:
        iteration, micro_batch = (int(word) for word in self._device.download(self._clock.array)[2:])
        return iteration, micro_batch

    def begin(self) -> None:
        """Starts to fill the other bank. All passes that were prepared before must have been queued."""
        self.allocate()
        if self._began:
            self._copies.mark_used(self.bank)
        self._began = True
        self.bank = (self.bank + 1) % BANKS
        self._copies.wait(self.bank)

    def wait_before(self) -> None:
        """Returns when the other bank's host memory may be overwritten."""
        self._copies.wait((self.bank - 1) % BANKS)

    def set_clock(self, which: int, iteration: int, micro_batch: int) -> None:
        self._clock.set(
            which, np.array([self.seed & 0xFFFFFFFF, self.seed >> 32, iteration & 0xFFFFFFFF, micro_batch], np.uint32)
        )

    def random_key(self, samples: int) -> tuple[Array, np.uint32]:
        """The arguments of random kernels: the clock (two words of the seed, iteration, micro-batch) and the samples of
        a micro-batch."""
        return self._clock.array, np.uint32(samples)

    def send(self, count: int = 1) -> None:
        assert self._host is not None
        first = self.bank * self.depth
        self.upload(self._memory[first : first + count], self._host[first : first + count])
        self.select(0)

    def upload(self, array: Array, host: np.ndarray) -> None:
        """Copies on a separate stream, after the last pass that reads this bank; operations queued afterwards wait for
        the copy."""
        self._copies.upload(self.bank, array, host)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Memory of the device that ``upload`` may write to at once."""
        array = self._device.empty(shape, dtype)
        self._copies.follow()
        return array

    def select(self, which: int) -> None:
        """Selects pass ``which`` of the bank."""
        self._pass = which

    @property
    def row(self) -> int:
        """The selected pass among those of both banks."""
        return self.bank * self.depth + self._pass

    def allocate(self) -> None:
        """Allocates memory for all fields, where there is none yet. Graphs that read from older memory become void."""
        if self._host is not None:
            return
        self._device.synchronize()
        shape = BANKS * self.depth, self._size
        self._host = self._device.backend.pinned(shape, np.dtype(np.uint8))
        self._memory = self._device.empty(shape, np.uint8)
        self._device.generation += 1
        for field in self._fields:
            field.bind(self._host, self._memory)


class Field:
    """One array of the input buffer; ``array`` holds the values of the selected pass."""

    def __init__(self, buffer: InputBuffer, device: Kernels, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self._buffer, self._device, self._offset, self._shape, self._dtype = buffer, device, offset, shape, dtype

    def bind(self, host: np.ndarray, memory: Array) -> None:
        count = math.prod(self._shape) * self._dtype.itemsize
        self._rows = [row[self._offset : self._offset + count].view(self._dtype).reshape(self._shape) for row in host]
        self._arrays = [self._device.view(row, self._offset, self._shape, self._dtype) for row in memory]

    def set(self, which: int, values: np.ndarray) -> None:
        """Copies the values to pinned memory."""
        self._rows[self._buffer.bank * self._buffer.depth + which][...] = values

    def replace(self, values: np.ndarray) -> None:
        self._buffer.allocate()
        self._device.upload(self.array, values)

    @property
    def array(self) -> Array:
        return self._arrays[self._buffer.row]

    def copy_to(self, target: Array) -> None:
        self._device.copy(self.array, target)


class Ring:
    """The last ``rows`` rows that were appended, each of ``width`` numbers. The device counts them, so that appending
    can be captured."""

    def __init__(self, device: Kernels, rows: int, width: int = 1):
        self._device, self._rows, self._width = device, rows, width
        self._array, self._count = device.zeros((rows, width)), device.zeros(1, np.int64)
        self._append = device.kernel("elementwise", "append", 1, rows, width)

    def __len__(self) -> int:
        return self._rows

    def append(self, source: Array, divisor: float = 1.0, clear: bool = False) -> None:
        self._append(source, self._array, self._count, float(divisor), clear)

    def reset(self, rows: np.ndarray) -> None:
        held = np.zeros((self._rows, self._width), self._device.dtype)
        held[: len(rows)] = rows
        self._device.upload(self._array, held)
        self._device.upload(self._count, np.array([len(rows)]))

    def last(self, count: int, total: int) -> np.ndarray:
        return self._device.download(self._array)[np.arange(total - count, total) % self._rows]
