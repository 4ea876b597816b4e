"""What nets that only test need: convolutions with constant weights, and as many threads as a step pays for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from .formula_kernels import FormulaKernels
from .kernels import checksums, program
from .onednn import Library
from .prepared import PreparedConvolution

# A thread's speed in a second, and the seconds of work from which on other threads pay: to wake one takes up to 50 µs
MULTIPLY_ADDS, NUMBERS, LEAST_SECONDS = 4e10, 2.5e9, 1e-4
LINE = 64  # bytes: the workspace starts on a cache line
GAP = 64  # numbers between arrays that are read as one


class Inference:
    def __init__(self, device: FormulaKernels, library: Library):
        self._device, self._library = device, library
        self.every = device.threads

    def watch(self, arrays: Sequence[Any]) -> Watch:
        return Watch(arrays)

    def threads(self, multiply_adds: int, numbers: int) -> int:
        seconds = multiply_adds / MULTIPLY_ADDS + numbers / NUMBERS
        return self._device.threads if seconds >= LEAST_SECONDS else 1

    def joined(self, operations: Sequence[tuple[PreparedConvolution, Any, Any]]) -> Program | None:
        """One call for several convolutions on one thread, all of which have run; None where there is none."""
        if len(operations) < 2 or min(op.step_bytes for op, _, _ in operations) < 0:
            return None
        return Program(self._device, operations)

    def limit(self, threads: int) -> None:
        if threads != self._device.active_threads:
            numba.set_num_threads(threads)
            self._library.set_threads(threads)
            self._device.active_threads = threads


class Program:
    """Convolutions that run one after the other on the calling thread, in one compiled call. operations: each with its
    x and y; all have run."""

    def __init__(self, device: FormulaKernels, operations: Sequence[tuple[PreparedConvolution, Any, Any]]):
        self._device, self._operations = device, operations
        self._bytes = max(op.step_bytes for op, _, _ in operations)
        self._space: np.ndarray | None = None

    def __call__(self) -> None:
        space = self._device.space(self._bytes + LINE)
        if space is not self._space:
            start = space.ctypes.data + -space.ctypes.data % LINE
            self._steps = np.array([op.step(x, y, start) for op, x, y in self._operations], np.int64)
            self._space = space
        program.run(self._steps)


class Watch:
    """Detects changes of arrays of float32 by checksums."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._words = [array.reshape(-1).view(np.uint32) for array in _joined(arrays)]
        self._checksums: list[bytes] | None = None

    def changed(self) -> bool:
        before, self._checksums = self._checksums, [self._checksum(words) for words in self._words]
        return self._checksums != before

    @staticmethod
    def _checksum(words: np.ndarray) -> bytes:
        if words.size <= 2 * checksums.CHUNK:
            return int(checksums.checksum(words)).to_bytes(8, "little")
        digests = np.empty(-(-words.size // checksums.CHUNK), np.uint64)
        checksums.checksums(words, digests)
        return digests.tobytes()


def _joined(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, with those that follow each other in one flat buffer as one."""
    views: list[np.ndarray] = []
    ranges: dict[int, list[tuple[int, int]]] = {}
    bases: dict[int, np.ndarray] = {}
    for array in arrays:
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        start = (array.ctypes.data - base.ctypes.data) // 4
        bases[id(base)] = base
        ranges.setdefault(id(base), []).append((start, start + array.size))
    for key, indices in ranges.items():
        flat, joined = bases[key].reshape(-1).view(np.float32), [[0, 0]]
        for start, stop in sorted(set(indices)):
            if start > joined[-1][1] + GAP:
                joined.append([start, stop])
            joined[-1][1] = max(joined[-1][1], stop)
        views += [flat[start:stop] for start, stop in joined if stop > start]
    return views
