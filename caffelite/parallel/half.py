"""Gradients that travel in 16 bits: half the bytes, added up in 32 bits all the same."""

from __future__ import annotations

import os

import numpy as np

CHUNK = 1 << 20  # elements on their way together
_HEAD = 2  # of float16: the room of one float32, what a part was multiplied by


def pack(values: np.ndarray, out: np.ndarray) -> None:
    """float16 numbers times a power of two that brings the largest near 1024: none overflows, however large or small
    all are."""
    largest = float(np.abs(values).max(initial=0))
    scale = 2.0 ** np.clip(10 - np.frexp(largest)[1], -100, 100) if np.isfinite(largest) and largest else 1.0
    out[:_HEAD].view(np.float32)[0] = scale
    with np.errstate(over="ignore"):  # only where a number is infinite anyway
        np.multiply(values, np.float32(scale), out=out[_HEAD : _HEAD + len(values)], casting="unsafe")


def unpack(packed: np.ndarray, count: int) -> np.ndarray:
    """In float32."""
    return packed[_HEAD : _HEAD + count].astype(np.float32) / packed[:_HEAD].view(np.float32)[0]


class Halved:
    """Sums of NumPy arrays of float32 in place, over MPI: a rank gets its part of the numbers from all, adds, and gives
    the sums to all.

    The bytes are those of a ring all-reduce, 2 (N - 1) / N of the numbers, at two bytes each. ``inner`` carries the
    loss and the flags.
    """

    def __init__(self, inner, comm, mpi):
        self._inner, self._comm, self._mpi = inner, comm, mpi
        self._back = comm.Dup()  # on each communicator calls come in one order, whatever finishes first
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._moving: list[tuple] = []
        self._posted = 0

    def put(self, flags: np.ndarray) -> None:
        self._inner.put(flags)

    def note(self, loss: np.ndarray) -> None:
        self._posted = 0
        self._inner.note(loss)

    def noted(self, loss: np.ndarray) -> np.ndarray:
        return self._inner.noted(loss)

    def post(self, array: np.ndarray) -> None:
        size = self._comm.size
        for at in range(0, len(array), CHUNK):
            chunk = array[at : at + CHUNK]
            width = -(-len(chunk) // size)
            send, received = self._room(size * (_HEAD + width + width % 2))
            rows = send.reshape(size, -1)
            for rank in range(size):
                pack(chunk[rank * width : (rank + 1) * width], rows[rank])
            self._moving.append(
                (self._comm.Ialltoall(self._bytes(send), self._bytes(received)), chunk, width, send, received, False)
            )

    def _room(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Two buffers of ``count`` float16, the same for the same chunk of every iteration."""
        number, self._posted = self._posted, self._posted + 1
        if number not in self._kept:
            self._kept[number] = np.zeros(count, np.float16), np.zeros(count, np.float16)
        return self._kept[number]

    def _bytes(self, array: np.ndarray) -> list:
        return [array.view(np.uint8), self._mpi.BYTE]

    def progress(self) -> bool:
        """Whether all are done. The ranks add and give on in the order of posting, so that their calls match."""
        moving = []
        for i, (request, chunk, width, send, received, summed) in enumerate(self._moving):
            if not request.Test():
                moving.append((request, chunk, width, send, received, summed))
                if not summed:
                    moving += self._moving[i + 1 :]
                    break
                continue
            rows = received.reshape(self._comm.size, -1)
            if summed:
                for rank, row in enumerate(rows):
                    part = chunk[rank * width : (rank + 1) * width]
                    part[...] = unpack(row, len(part))
                continue
            mine = send.reshape(rows.shape)[0]
            pack(sum(unpack(row, width) for row in rows), mine)
            following = self._back.Iallgather(self._bytes(mine), self._bytes(received))
            moving.append((following, chunk, width, send, received, True))
        self._moving = moving
        return self._inner.progress() and not moving

    def finish(self) -> None:
        while not self.progress():
            os.sched_yield()
