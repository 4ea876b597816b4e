"""Source: batches kept ready. A thread reads, workers decode and perturb, the net's thread copies to its device, all at
once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Queue, SimpleQueue
from threading import Event, Lock, Thread

import numpy as np

from ..errors import CaffeliteError

MOST_PREFETCH = 32  # batches; more would only take memory
MOST_WORKERS = 16  # unless told otherwise: beyond, they only wait for the interpreter
TASKS_AHEAD = 2  # for each worker

_workers: int | None = None


def set_workers(count: int | None) -> None:
    """How many threads decode and perturb for each source that is opened from now on; None: as many as there are
    cores."""
    global _workers
    _workers = count


def workers() -> int:
    return _workers or min(len(os.sched_getaffinity(0)), MOST_WORKERS)


@dataclass(frozen=True)
class Share:
    """One of ``size`` readers of the same samples: they take batches in turn, so that together they read what one alone
    would."""

    rank: int = 0
    size: int = 1


@dataclass
class Batch:
    """What a source hands out: the arrays of its tops, float32; or pixels, of which the first top is still to be made,
    and the others.

    pixels: M×C×H×W of uint8 or float32. picks: N×4 of int32, a row a sample: which pixels, the crop's top and left, 1
    where it is mirrored. standing: the pixels are the whole set and stay as they are.
    """

    arrays: list[np.ndarray]
    pixels: np.ndarray | None = None
    picks: np.ndarray | None = None
    standing: bool = False


@dataclass
class _Slot:
    """A batch in the making, ready when what was begun for it has ended; of several failures the first in the batch's
    order counts."""

    batch: Batch
    ready: Event = field(default_factory=Event)
    failure: tuple[int, BaseException] | None = None
    _open: int = 1
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        with self._lock:
            self._open += 1

    def end(self, place: int = 0, failure: BaseException | None = None) -> None:
        with self._lock:
            if failure and (not self.failure or place < self.failure[0]):
                self.failure = place, failure
            self._open -= 1
            if not self._open:
                self.ready.set()


class Source:
    """Hands out batches; what it hands out depends on nothing but `position` and `share`.

    shapes: one per top, batch first. length: samples per epoch. position: samples handed out since the start, by all
    that share them and are equally far; what has been prepared beyond that does not count. workers: how many threads
    beside the reading one. allocate: makes the memory of batches. A kind of source implements `tasks`, perhaps
    `buffer`, and, where it holds files, `release`.
    """

    def __init__(self, shapes: list[tuple[int, ...]], length: int, prefetch: int = 4, workers: int = 0):
        self.shapes, self.length, self.position = shapes, length, 0
        self.share, self.workers, self.allocate = Share(), workers, np.empty
        self._prefetch = min(max(1, prefetch), MOST_PREFETCH)
        self._threads: list[Thread] = []
        self._closed = False

    def buffer(self) -> Batch:
        """The memory of one batch, used again and again."""
        return Batch([self.allocate(shape, np.float32) for shape in self.shapes])

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        """Reads the samples from `position` on, and yields what is left to do to write them into the batch, in pieces;
        workers do these.

        Runs in the reading thread. Without workers it yields nothing, and is done at its end.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Closes what the source holds; called once, when its threads have ended."""

    def draw(self) -> Batch:
        """The next batch, the caller's until the following call.

        A failure of a thread is raised here, in its turn; the following call tries the same batch again.
        """
        if self._closed:
            raise ValueError("the source is closed")
        if not self._threads:
            self._start()
        elif self._lent:
            self._free.put(self._lent)
        self._lent = None
        slot = self._made.get()
        slot.ready.wait()
        if slot.failure:
            self._stop()
            raise slot.failure[1]
        self._lent = slot.batch
        self.position += self.shapes[0][0] * self.share.size
        return slot.batch

    def next(self) -> list[np.ndarray]:
        """The next batch, finished: C-contiguous float32 arrays, one per top, the caller's until the following call."""
        return self.finished(self.draw())

    def finished(self, batch: Batch) -> list[np.ndarray]:
        return batch.arrays

    def seek(self, samples: int) -> None:
        """Goes on as a source would that has handed out, with those that share its samples, so many since the start."""
        self._stop()
        self.position = samples

    def close(self) -> None:
        """Ends the threads and closes the files; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._stop()
            self.release()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._free, self._made, self._lent = SimpleQueue(), SimpleQueue(), None
        self._left: Queue = Queue(max(1, TASKS_AHEAD * self.workers))
        try:
            for _ in range(1 + self._prefetch):
                self._free.put(self.buffer())
        except (MemoryError, ValueError):  # NumPy says the second where no address could be that large
            shapes = " and ".join("×".join(map(str, shape)) for shape in self.shapes)
            what = f"not enough memory for {1 + self._prefetch} batches of {shapes}"
            raise CaffeliteError(what, remedy="lower batch_size or prefetch") from None
        self._stopping = Event()
        # Daemons, so that a program that ends without close() ends.
        self._threads = [Thread(target=self._read, args=(self.position,), name="caffelite data", daemon=True)]
        self._threads += [Thread(target=self._work, name="caffelite data", daemon=True) for _ in range(self.workers)]
        for thread in self._threads:
            thread.start()

    def _stop(self) -> None:
        if self._threads:
            self._stopping.set()  # what nobody has begun, nobody need do
            with suppress(Empty):
                while True:
                    self._free.get_nowait()
            self._free.put(None)
            reader, *others = self._threads
            reader.join()
            for _ in others:
                self._left.put(None)
            for thread in others:
                thread.join()
        self._threads, self._lent = [], None

    def _read(self, position: int) -> None:
        size = self.shapes[0][0]
        while (batch := self._free.get()) is not None:
            slot = _Slot(batch)
            self._made.put(slot)
            place = 0
            try:
                for place, task in enumerate(self.tasks(position + self.share.rank * size, batch)):
                    slot.begin()
                    self._left.put((slot, place, task))
                    if self._stopping.is_set() or slot.failure:
                        break
            except BaseException as failure:
                slot.end(place + 1, failure)  # what was read before this may fail as well
                return
            slot.end()
            position += self.share.size * size

    def _work(self) -> None:
        while (job := self._left.get()) is not None:
            slot, place, task = job
            failure = None
            if not self._stopping.is_set() and not (slot.failure and slot.failure[0] < place):
                try:
                    task()
                except BaseException as mistake:
                    failure = mistake
            slot.end(place, failure)
