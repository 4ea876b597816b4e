"""Where the numbers of a layer's blobs are: in the memory that two processes map, or in the fork's own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from .mapped import Blobs, Layout, MappedMemory


class BlobMemory(Protocol):
    """What a fork's library says of a blob: of its numbers, or with ``diff`` of their gradients."""

    def array(self, blob: int, diff: bool = False) -> np.ndarray:
        """The memory, flat. A later Reshape may move it."""
        ...

    def address(self, blob: int, diff: bool = False) -> int: ...

    def at(self, blob: int, diff: bool, address: int, count: int) -> bool:
        """Whether the numbers are so many and at this address. The memory of a GPU is copied first."""
        ...

    def room(self, blob: int) -> int:
        """How many numbers the memory holds."""
        ...

    def shared(self, blob: int, diff: bool) -> bool:
        """Whether another blob has the same memory."""
        ...

    def use(self, blob: int, diff: bool, address: int, room: int, keep: bool) -> bool:
        """Puts the numbers into other memory, with room for as many. keep: they are copied there. Returns whether the
        class of the blob lets it."""
        ...


class Slot(NamedTuple):
    """The array of a blob in the mapped memory, where that is, and for how many numbers there is room."""

    blob: int
    diff: bool
    array: np.ndarray
    address: int
    room: int


class Slots:
    """Those of one layer. A blob computes in its slot as long as no other blob has its memory; else its numbers are
    copied."""

    def __init__(self, memory: BlobMemory, bottoms: Sequence[int], tops: Sequence[int], params: Sequence[int]):
        self.memory = memory
        self._blobs = bottoms, tops, params
        self._earlier: list[MappedMemory] = []  # in which blobs still are
        self._own: list[np.ndarray] = []  # memory of blobs that have left mapped memory
        self._mapped: MappedMemory | None = None
        every = {*bottoms, *tops, *params}
        addresses = {blob: address for blob in every if (address := memory.address(blob))}
        count = Counter(addresses.values())
        self._apart = {blob for blob, address in addresses.items() if count[address] > 1}

    def rooms(self) -> list[list[int]]:
        """How many numbers the memory of each bottom, of each top and of each parameter holds."""
        return [[self.memory.room(blob) for blob in blobs] for blobs in self._blobs]

    def attach(self, layout: Layout, path: str) -> Blobs:
        """Makes slots in the mapped memory of this file. The blobs are there from the next ``enter`` on."""
        if self._mapped:
            self._earlier.append(self._mapped)
        made = Blobs(layout, path)
        self._mapped = made.mapped

        def slots(which: int, arrays: Sequence[np.ndarray], diff: bool) -> list[Slot]:
            rows = zip(self._blobs[which], arrays, layout.rooms[which], strict=False)  # a loss may be no blob
            return [Slot(blob, diff, array, array.ctypes.data, room) for blob, array, room in rows]

        self.bottoms, self.bottom_diffs = slots(0, made.bottoms, False), slots(0, made.bottom_diffs, True)
        self.tops, self.top_diffs = slots(1, made.tops, False), slots(1, made.top_diffs, True)
        self.params, self.param_diffs = slots(2, made.params, False), slots(2, made.param_diffs, True)
        return made

    def _enter(self, slots: Sequence[Slot], keep: bool) -> None:
        for blob, diff, _, address, room in slots:
            if blob not in self._apart and not self.memory.shared(blob, diff):
                self.memory.use(blob, diff, address, room, keep)

    def enter(self) -> None:
        """Before a forward pass: all blobs into the mapped memory; bottoms and parameters as they were written."""
        self._enter((*self.bottoms, *self.params), keep=False)
        self._enter((*self.tops, *self.bottom_diffs, *self.top_diffs, *self.param_diffs), keep=True)
        self._earlier.clear()
        self._read((*self.bottoms, *self.params))

    def enter_backward(self) -> None:
        """Before a backward pass: parameters and the gradients of tops, as they were written."""
        written = (*self.params, *self.top_diffs)
        self._enter(written, keep=False)
        self._read(written)

    def _elsewhere(self, slots: Sequence[Slot]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The array in the mapped memory and the memory of each blob that is not there."""
        for blob, diff, array, address, _ in slots:
            if not self.memory.at(blob, diff, address, array.size):
                yield array, self.memory.array(blob, diff)

    def _read(self, slots: Sequence[Slot]) -> None:
        for array, own in self._elsewhere(slots):
            own[...] = array.ravel()

    def write(self, slots: Sequence[Slot]) -> None:
        """Sees that what the code has computed is in the mapped memory."""
        for array, own in self._elsewhere(slots):
            array.ravel()[...] = own

    def clear(self, slots: Sequence[Slot]) -> None:
        """Sets the numbers of blobs to 0."""
        for blob, diff, array, address, _ in slots:
            here = self.memory.at(blob, diff, address, array.size)  # first: it may copy what a GPU has
            (array if here else self.memory.array(blob, diff))[...] = 0

    def leave(self) -> None:
        """After code has run: gives memory of its own to what is in mapped memory and is now another blob's as well,
        which may use it as long as it likes."""
        if self._mapped is None:
            return
        every = (self._mapped, *self._earlier)
        data = (*self.bottoms, *self.tops, *self.params)
        diffs = (*self.bottom_diffs, *self.top_diffs, *self.param_diffs)
        for blob, diff, *_ in (*data, *diffs):
            if not self.memory.shared(blob, diff):
                continue
            address = self.memory.address(blob, diff)
            if any(one.has(address) for one in every):
                own = np.empty(self.memory.room(blob), np.float32)
                self._own.append(own)
                self.memory.use(blob, diff, own.ctypes.data, own.size, keep=True)
