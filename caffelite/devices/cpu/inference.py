"""What nets that only test need: convolutions with constant weights, and as many threads as a step pays for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ..inference_ops import Arena, Call
from . import program
from .formula_kernels import FormulaKernels
from .kernels import checksums
from .onednn import Library

GAP = 64  # numbers between arrays that are read as one


class Inference:
    def __init__(self, device: FormulaKernels, library: Library):
        self._device, self._library = device, library
        self.every = device.threads

    def watch(self, arrays: Sequence[Any]) -> Watch:
        return Watch(arrays)

    def threads(self, multiply_adds: int, numbers: int, weights: int) -> int:
        seconds = multiply_adds / program.MULTIPLY_ADDS + numbers / program.NUMBERS + weights / program.WEIGHTS
        return self._device.threads if seconds >= program.LEAST_SECONDS else 1

    def can_join(self, call: Call) -> bool:
        return program.can_join(call)

    def joined(self, calls: Sequence[Call], arena: Arena) -> program.Program:
        return program.Program(self._device, calls, arena)

    def limit(self, threads: int) -> None:
        if threads != self._device.active_threads:
            numba.set_num_threads(threads)
            self._library.set_threads(threads)
            self._device.active_threads = threads


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
