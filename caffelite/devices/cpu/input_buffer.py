"""The CPU's input buffer: references to the host's arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from .memory import Memory


class InputBuffer:
    """See ``devices.context``. One pass is prepared at a time. seed: key of the random numbers."""

    depth = 1

    def __init__(self, device: Memory, seed: int = 0):
        self.seed, self.clock = seed, (0, 0)
        self._device = device

    def field(self, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> Field:
        return Field(self._device)

    def require_depth(self, passes: int) -> None: ...

    def begin(self) -> None: ...

    def set_clock(self, which: int, iteration: int, micro_batch: int) -> None:
        self.clock = (iteration, micro_batch)

    def send(self, count: int = 1) -> None:
        self._device.cores.note_pass()

    def select(self, which: int) -> None: ...

    def random_key(self, samples: int) -> tuple[int, int, int, int]:
        """(low and high half of the seed, iteration, index of the micro-batch's first sample)."""
        iteration, micro_batch = self.clock
        return self.seed & 0xFFFFFFFF, self.seed >> 32, iteration, micro_batch * samples


class Field:
    """A reference to an array of the host."""

    def __init__(self, device: Memory):
        self._device = device
        self.array: np.ndarray = np.empty(0)

    def set(self, which: int, values: np.ndarray) -> None:
        self.array = values

    def replace(self, values: np.ndarray) -> None:
        self.array = values

    def copy_to(self, target: np.ndarray) -> None:
        self._device.upload(target, self.array)


class Ring:
    """The last ``rows`` rows that were appended, each of ``width`` numbers."""

    def __init__(self, device: Memory, rows: int, width: int = 1):
        self._array, self._count = device.zeros((rows, width)), 0

    def __len__(self) -> int:
        return len(self._array)

    def append(self, source: np.ndarray, divisor: float = 1.0, clear: bool = False) -> None:
        np.divide(source.reshape(-1), self._array.dtype.type(divisor), out=self._array[self._count % len(self)])
        self._count += 1
        if clear:
            source.fill(0)

    def reset(self, rows: np.ndarray) -> None:
        self._array[: len(rows)] = rows
        self._count = len(rows)

    def last(self, count: int, total: int) -> np.ndarray:
        rows: np.ndarray = self._array[np.arange(total - count, total) % len(self)]
        return rows
