"""Sums by way of the host's memory: for processes without MPI, and for GPUs that NCCL does not join."""

from __future__ import annotations

import numpy as np


class HostAllReduce:
    """Sums of NumPy arrays in place, rank by rank, from what ``control.gather`` brings."""

    def __init__(self, control):
        self._control, self._posted = control, []

    def put(self, flags: np.ndarray) -> None:
        self._flags = flags

    def note(self, loss: np.ndarray) -> None:
        self._note = np.array([loss[0], *self._flags], float)
        self._posted = [self._note]

    def noted(self, loss: np.ndarray) -> np.ndarray:
        loss[0] = self._note[0]
        return self._note[1:]

    def post(self, array: np.ndarray) -> None:
        self._posted.append(array)

    def progress(self) -> None: ...

    def finish(self) -> None:
        for array, *every in zip(self._posted, *self._control.gather(self._posted), strict=True):
            total = np.zeros_like(array)  # rank 0 gathers its own arrays, not copies of them
            for other in every:
                total += other
            array[...] = total


class StagedAllReduce:
    """Sums of a device's arrays in place: downloaded, summed on the host by ``inner``, uploaded."""

    def __init__(self, dev, inner):
        self._dev, self._inner, self._staged = dev, inner, []

    def put(self, flags: np.ndarray) -> None:
        self._inner.put(flags)

    def note(self, loss) -> None:
        self._staged = []
        self._inner.note(self._dev.download(loss))

    def noted(self, loss) -> np.ndarray:
        host = np.empty(1, self._dev.dtype)
        flags = self._inner.noted(host)
        self._dev.upload(loss, host)
        return flags

    def post(self, array) -> None:
        host = self._dev.download(array)
        self._staged.append((array, host))
        self._inner.post(host)

    def progress(self) -> None:
        self._inner.progress()

    def finish(self) -> None:
        self._inner.finish()
        for array, host in self._staged:
            self._dev.upload(array, host)
