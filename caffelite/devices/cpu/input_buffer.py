"""What the host hands a net's passes. On a CPU no more than references: a GPU has the same class, where it is memory
and copies."""

from __future__ import annotations

import numpy as np


class InputBuffer:
    """Fields that change from pass to pass; see ``devices.gpu.input_buffer``. Here one pass is prepared at a time."""

    depth = 1
    half = 0

    def __init__(self, device):
        self._device = device

    def field(self, shape: tuple[int, ...], dtype=None) -> Field:
        return Field(self._device)

    def begin(self) -> None: ...

    def put_clock(self, which: int, iteration: int, part: int) -> None:
        self._device.clock = (iteration, part)

    def send(self, count: int = 1) -> None: ...

    def use(self, which: int) -> None: ...


class Field:
    """An array of the host's, read where it lies until the next one is put."""

    def __init__(self, device):
        self._device, self.array = device, None

    def put(self, which: int, values: np.ndarray) -> None:
        self.array = values

    def renew(self, values: np.ndarray) -> None:
        self.array = values

    def copy_to(self, target) -> None:
        self._device.upload(target, self.array)


class Ring:
    """The last ``rows`` of what was appended, each ``width`` numbers; ``last`` reads them back."""

    def __init__(self, device, rows: int, width: int = 1):
        self._array, self._count = device.zeros((rows, width)), 0

    def __len__(self) -> int:
        return len(self._array)

    def append(self, source: np.ndarray, divisor: float = 1.0, clear: bool = False) -> None:
        """source / divisor; clear: source becomes 0."""
        np.divide(source.reshape(-1), self._array.dtype.type(divisor), out=self._array[self._count % len(self)])
        self._count += 1
        if clear:
            source.fill(0)

    def reset(self, rows: np.ndarray) -> None:
        """Holds these rows (count, width) and no others."""
        self._array[: len(rows)] = rows
        self._count = len(rows)

    def last(self, count: int, total: int) -> np.ndarray:
        """The ``count`` rows that were appended last, oldest first, of ``total`` ever appended."""
        return self._array[np.arange(total - count, total) % len(self)]
