"""All-reduce that sends 16-bit numbers: half the bytes, summed in 32 bits."""

from typing import Any

import numpy as np

from ..reducer import Transport
from .mpi import wait

CHUNK = 1 << 20  # elements of one exchange
SCALE = 2  # float16 numbers that hold one float32: the factor of a part


def pack(values: np.ndarray, out: np.ndarray) -> None:
    """float16 numbers times a power of two that scales the largest to about 1024, so that none overflows at any
    magnitude."""
    largest = float(np.abs(values).max(initial=0))
    scale = 2.0 ** np.clip(10 - np.frexp(largest)[1], -100, 100) if np.isfinite(largest) and largest else 1.0
    out[:SCALE].view(np.float32)[0] = scale
    with np.errstate(over="ignore"):  # only where a number is infinite anyway
        np.multiply(values, np.float32(scale), out=out[SCALE : SCALE + len(values)], casting="unsafe")


def unpack(packed: np.ndarray, count: int) -> np.ndarray:
    """In float32."""
    return packed[SCALE : SCALE + count].astype(np.float32) / packed[:SCALE].view(np.float32)[0]


class HalfPrecisionAllReduce:
    """Sums NumPy arrays of float32 in place, over MPI: each rank receives one part of the numbers from all ranks, sums
    it and sends the sum to all.

    It sends as many numbers as a ring all-reduce, 2 (N - 1) / N of them, at two bytes each. ``inner`` sums the loss and
    the flags.
    """

    def __init__(self, inner: Transport, comm: Any, mpi: Any):
        self._inner, self._comm, self._mpi = inner, comm, mpi
        self._back = comm.Dup()  # each communicator keeps the order of its calls, whichever finishes first
        self._allocated: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._pending: list[tuple[Any, ...]] = []
        self._posted = 0

    def set_flags(self, flags: np.ndarray) -> None:
        self._inner.set_flags(flags)

    def begin(self, loss: np.ndarray) -> None:
        self._inner.begin(loss)

    def read_loss(self, loss: np.ndarray) -> np.ndarray:
        return self._inner.read_loss(loss)

    def post(self, array: np.ndarray) -> None:
        size = self._comm.size
        for at in range(0, len(array), CHUNK):
            chunk = array[at : at + CHUNK]
            width = -(-len(chunk) // size)
            send, received = self._buffers(size * (SCALE + width + width % 2))
            rows = send.reshape(size, -1)
            for rank in range(size):
                pack(chunk[rank * width : (rank + 1) * width], rows[rank])
            self._pending.append(
                (self._comm.Ialltoall(self._bytes(send), self._bytes(received)), chunk, width, send, received, False)
            )

    def _buffers(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Two buffers of ``count`` float16, the same for the same chunk in every iteration."""
        number, self._posted = self._posted, self._posted + 1
        if number not in self._allocated:
            self._allocated[number] = np.zeros(count, np.float16), np.zeros(count, np.float16)
        return self._allocated[number]

    def _bytes(self, array: np.ndarray) -> list[Any]:
        return [array.view(np.uint8), self._mpi.BYTE]

    def progress(self) -> bool:
        """Whether all are done. The ranks sum and send in the order of posting, so that their calls match."""
        pending = []
        for i, (request, chunk, width, send, received, summed) in enumerate(self._pending):
            if not request.Test():
                pending.append((request, chunk, width, send, received, summed))
                if not summed:
                    pending += self._pending[i + 1 :]
                    break
                continue
            rows = received.reshape(self._comm.size, -1)
            if summed:
                for rank, row in enumerate(rows):
                    part = chunk[rank * width : (rank + 1) * width]
                    part[...] = unpack(row, len(part))
                continue
            mine = send.reshape(rows.shape)[0]
            pack(sum((unpack(row, width) for row in rows), start=np.zeros(width, np.float32)), mine)
            following = self._back.Iallgather(self._bytes(mine), self._bytes(received))
            pending.append((following, chunk, width, send, received, True))
        self._pending = pending
        return self._inner.progress() and not pending

    def finish(self) -> None:
        wait(self.progress)
        self._posted = 0
