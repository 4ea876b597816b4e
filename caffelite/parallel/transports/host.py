"""All-reduce through the host's memory: for processes without MPI, and for GPUs that NCCL cannot connect."""

import numpy as np

from ...devices.protocol import Device
from ...devices.types import Array
from ..control import Control
from ..reducer import Transport


class HostAllReduce:
    """Sums NumPy arrays in place, in the order of ranks, by ``control.gather``."""

    def __init__(self, control: Control):
        self._control = control
        self._posted: list[np.ndarray] = []

    def set_flags(self, flags: np.ndarray) -> None:
        self._flags = flags

    def begin(self, loss: np.ndarray) -> None:
        self._head = np.array([loss[0], *self._flags], float)
        self._posted = [self._head]

    def read_loss(self, loss: np.ndarray) -> np.ndarray:
        loss[0] = self._head[0]
        return self._head[1:]

    def post(self, array: np.ndarray) -> None:
        self._posted.append(array)

    def progress(self) -> None: ...

    def finish(self) -> None:
        for array, *every in zip(self._posted, *self._control.gather(self._posted), strict=True):
            total = np.zeros_like(array)  # rank 0 gathers its own arrays, not copies of them
            for other in every:
                total += other
            array[...] = total
        self._posted = []


class StagedAllReduce:
    """Sums a device's arrays in place: downloads them, sums them on the host by ``inner``, uploads them."""

    def __init__(self, dev: Device, inner: Transport):
        self._dev, self._inner = dev, inner
        self._staged: list[tuple[Array, np.ndarray]] = []

    def set_flags(self, flags: np.ndarray) -> None:
        self._inner.set_flags(flags)

    def begin(self, loss: Array) -> None:
        self._staged = []
        self._inner.begin(self._dev.download(loss))

    def read_loss(self, loss: Array) -> np.ndarray:
        host = np.empty(1, self._dev.dtype)
        flags = self._inner.read_loss(host)
        self._dev.upload(loss, host)
        return flags

    def post(self, array: Array) -> None:
        host = self._dev.download(array)
        self._staged.append((array, host))
        self._inner.post(host)

    def progress(self) -> None:
        self._inner.progress()

    def finish(self) -> None:
        self._inner.finish()
        for array, host in self._staged:
            self._dev.upload(array, host)
        self._staged = []
