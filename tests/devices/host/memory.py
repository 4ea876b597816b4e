"""Memory of the stand-in for a GPU, given out as by CuPy's pool: a block serves again, for the stream that it was
allocated on, as soon as Python has released it, and captured graphs hold addresses, not arrays."""

import collections
import ctypes
import functools
import math
import mmap
import weakref

import numpy as np

UNIT = 512  # bytes: blocks are multiples of it
CHUNK = 1 << 26
SPOILED = 0xFF  # NaN: nothing may count on zeros, or on what the last owner left


class Pool:
    """Blocks by stream and size. What is released is spoiled in the order of its stream; the next owner writes after
    that."""

    def __init__(self) -> None:
        self._chunks: list[mmap.mmap] = []
        self._used = 0  # bytes of the last chunk
        self._free: dict[tuple[object, int], list[int]] = {}
        self._released: collections.deque[tuple] = collections.deque()  # stream, size, address
        self.reused = 0  # blocks that were given out again

    def allocate(self, stream, nbytes: int) -> np.ndarray:
        """nbytes of memory that is released with the last array over it."""
        while self._released:
            self._recycle(*self._released.popleft())
        size = max(1, -(-nbytes // UNIT)) * UNIT
        free = self._free.setdefault((stream, size), [])
        if free:
            address = free.pop()
            self.reused += 1
        else:
            address = self._new(size)
            ctypes.memset(address, SPOILED, size)
        block = (ctypes.c_char * max(1, nbytes)).from_address(address)
        # The garbage collector may call this in the middle of any step of a stream: it must queue no work.
        weakref.finalize(block, self._released.append, (stream, size, address)).atexit = False
        return np.frombuffer(block, np.uint8, nbytes)

    def _new(self, size: int) -> int:
        if not self._chunks or self._used + size > len(self._chunks[-1]):
            self._chunks.append(mmap.mmap(-1, max(size, CHUNK)))
            self._used = 0
        self._used += size
        return _address(self._chunks[-1]) + self._used - size

    def _recycle(self, stream, size: int, address: int) -> None:
        if not stream.capture:  # else the memory is spoiled when its next owner writes
            stream.add(functools.partial(ctypes.memset, address, SPOILED, size))
        self._free[stream, size].append(address)

    def borrowed(self, value):
        """A call, or its arguments, with arrays that do not keep their blocks."""
        if isinstance(value, functools.partial):
            arguments = {name: self.borrowed(argument) for name, argument in value.keywords.items()}
            return functools.partial(self.borrowed(value.func), *map(self.borrowed, value.args), **arguments)
        if type(value) in (tuple, list):
            return type(value)(map(self.borrowed, value))
        if isinstance(value, np.ndarray) and self._owns(value):
            spans = [(count - 1) * stride for count, stride in zip(value.shape, value.strides, strict=True)]
            before, behind = -sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)
            raw = (ctypes.c_char * (before + behind + value.itemsize)).from_address(value.ctypes.data - before)
            return np.ndarray(value.shape, value.dtype, raw, before, value.strides).view(type(value))
        return value

    def _owns(self, array: np.ndarray) -> bool:
        address = array.ctypes.data
        within = any(_address(chunk) <= address < _address(chunk) + len(chunk) for chunk in self._chunks)
        return within and math.prod(array.shape) > 0


def _address(chunk: mmap.mmap) -> int:
    return np.frombuffer(chunk, np.uint8, 1).ctypes.data
