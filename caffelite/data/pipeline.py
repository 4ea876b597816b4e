"""Source: prefetched batches. One thread reads, workers decode and augment, the net's thread copies to its
device, all concurrently."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, Queue, SimpleQueue
from threading import Event, Lock, Thread

import numpy as np

from ..errors import CaffeliteError
from ..system import usable_cores
from .fingerprint import Facts, digest
from .proposals import Proposal

log = logging.getLogger("caffelite")

MOST_PREFETCH = 32  # batches; more only use memory
MOST_WORKERS = 16  # by default: more of them wait for the interpreter
TASKS_AHEAD = 2  # for each worker
MOST_NAMED = 8  # samples with NaN or infinity, for each source

_workers: int | None = None


def rows_not_finite(arrays: Iterable[np.ndarray], rows: int) -> list[int]:
    """The rows that are not finite in an array of floats with so many rows. A sum tells of most arrays that they have
    none."""
    samples: set[int] = set()
    with np.errstate(all="ignore"):
        for array in arrays:
            if array.dtype.kind == "f" and array.shape[:1] == (rows,) and not np.isfinite(array.sum()):
                samples.update(np.flatnonzero(~np.isfinite(array).reshape(rows, -1).all(1)).tolist())
    return sorted(samples)


def set_workers(count: int | None) -> None:
    """Sets how many threads decode and augment for each source that is opened from now on; None: one for each
    core."""
    global _workers
    _workers = count


def workers() -> int:
    return _workers or min(len(usable_cores()), MOST_WORKERS)


@dataclass(frozen=True)
class Shard:
    """The samples that one of ``size`` processes reads: the processes take batches in turn, so that together they read
    the same samples as a single process."""

    rank: int = 0
    size: int = 1


@dataclass
class Batch:
    """A batch of a source: the float32 arrays of its tops; or the pixels from which the first top is computed, and the
    arrays of the others.

    pixels: M×C×H×W of uint8 or float32. picks: N×4 of int32, a row a sample: the image's index, the crop's top and
    left, 1 where it is mirrored. resident: pixels is the complete data set and does not change.
    """

    arrays: list[np.ndarray]
    pixels: np.ndarray | None = None
    picks: np.ndarray | None = None
    resident: bool = False

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        """Pixels and picks. Errors: the first top is an array too."""
        if self.pixels is None or self.picks is None:
            raise ValueError("a batch without pixels")
        return self.pixels, self.picks


@dataclass
class _Slot:
    """A batch that is being prepared: ready when all its tasks have ended. Of several errors the first in the batch's
    order is raised. examined: whether ``bad`` is to name the rows that are not finite."""

    batch: Batch
    examined: bool = False
    bad: list[int] = field(default_factory=list)
    ready: Event = field(default_factory=Event)
    failure: tuple[int, BaseException] | None = None
    _running: int = 1
    _lock: Lock = field(default_factory=Lock)

    def start_task(self) -> None:
        with self._lock:
            self._running += 1

    def end_task(self, index: int = 0, failure: BaseException | None = None) -> None:
        with self._lock:
            if failure and (not self.failure or index < self.failure[0]):
                self.failure = index, failure
            self._running -= 1
            if self._running:
                return
        if self.examined and not self.failure:
            pixels = [] if self.batch.pixels is None else [self.batch.pixels]
            arrays = [*pixels, *self.batch.arrays]
            self.bad = rows_not_finite(arrays, len(arrays[0]))
        self.ready.set()


class Source:
    """Returns batches, which depend on `position` and `shard` alone.

    shapes: one per top, batch first. length: samples per epoch. position: samples returned since the start, by all
    processes that read shards of them, which are equally far; batches that are prepared beyond it do not count.
    workers: how many threads besides the one that reads. allocate: allocates the memory of batches. A subclass
    implements `tasks`, and where needed `buffer`, `release` and `name`.
    """

    listed: Sequence[object] = ()  # what a list says of the samples
    gives_objects = False  # whether the second top has rows of objects, as of AnnotatedData
    on_host = False  # whether the first top is computed on the host where the source has a transform
    floats = False  # whether samples are stored as floats; of these a warning in the first epoch names NaN and infinity

    def __init__(self, shapes: list[tuple[int, ...]], length: int, prefetch: int = 4, workers: int = 0):
        self.shapes, self.length, self.position = shapes, length, 0
        self.shard, self.workers, self.allocate = Shard(), workers, np.empty
        self._prefetch = min(max(1, prefetch), MOST_PREFETCH)
        self._threads: list[Thread] = []
        self._current: Batch | None = None  # the batch that the caller reads
        self._closed = False
        self.bad_samples: list[str] = []  # with NaN or infinity, the first MOST_NAMED of them

    def divide(self, shard: int, shards: int) -> None:
        """From now on returns shard ``shard`` of ``shards`` of each batch, before the first one is drawn."""
        self.shapes = [(shape[0] // shards, *shape[1:]) for shape in self.shapes]
        self.shard = Shard(self.shard.rank * shards + shard, self.shard.size * shards)

    def buffer(self) -> Batch:
        """The memory of one batch, which is reused."""
        return Batch([self.allocate(shape, np.float32) for shape in self.shapes])

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        """Reads the samples from `position` on and yields tasks that write them into the batch; workers run these.

        It runs in the reading thread. Without workers it yields nothing and writes the batch itself.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Closes files; called once, when the threads have ended."""

    def draw(self) -> Batch:
        """The next batch, valid until the following call.

        An error of a thread is raised here, when its batch is due; the following call tries the same batch again.
        """
        if self._closed:
            raise ValueError("the source is closed")
        if not self._threads:
            self._start()
        elif self._current:
            self._free.put(self._current)
        self._current = None
        slot = self._slots.get()
        slot.ready.wait()
        if slot.failure:
            self._stop()
            raise slot.failure[1]
        self._current = slot.batch
        if slot.bad:
            start = self.position + self.shard.rank * self.shapes[0][0]
            self._warn([start + row for row in slot.bad], self.name)
        self.position += self.shapes[0][0] * self.shard.size
        return slot.batch

    def name(self, position: int) -> str:
        """The sample at a position of the run, in words. Called while no thread reads."""
        return "place {1} of epoch {0}".format(*divmod(position, self.length))

    @property
    def reads(self) -> bool:
        """Whether threads read the data."""
        return bool(self._threads)

    def facts(self) -> Facts:
        """What the data are known by; reads a few samples. Called while no thread reads. Errors: a sample cannot be
        read."""
        facts = {"samples": str(self.length)}
        if self.listed:
            facts["list"] = digest(repr(entry).encode() for entry in self.listed)
        return facts

    def not_finite(self, most: int) -> list[str]:
        """Names of samples with NaN or infinity among the first ones, which have about ``most`` numbers in all; none of
        bytes. Errors: a sample cannot be read."""
        return []

    def proposals(self, most: int) -> list[Proposal]:
        """Settings of transform_param that suit the image files of the source, by at most ``most`` of them. Called
        while no thread reads. Errors: a file cannot be read."""
        return []

    def _warn(self, bad: list[int], name: Callable[[int], str]) -> None:
        """Names samples with NaN or infinity, each once, MOST_NAMED at most."""
        if len(self.bad_samples) < MOST_NAMED:
            self._stop()
            new = (sample for sample in map(name, bad) if sample not in self.bad_samples)
            if not (names := list(islice(new, MOST_NAMED - len(self.bad_samples)))):
                return
            self.bad_samples += names
            last = "; no more are named" if len(self.bad_samples) == MOST_NAMED else ""
            log.warning("the data hold NaN or infinity: %s%s", ", ".join(names), last)

    def next(self) -> list[np.ndarray]:
        """The next batch as C-contiguous float32 arrays, one per top, valid until the following call."""
        return self.to_float(self.draw())

    def to_float(self, batch: Batch) -> list[np.ndarray]:
        """The tops of a batch, computed on the host."""
        return batch.arrays

    def seek(self, samples: int) -> None:
        """Continues from a position: the number of samples that all shards together have returned."""
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
        self._current = None
        self._free: SimpleQueue[Batch | None] = SimpleQueue()  # buffers; None ends the reading thread
        self._slots: SimpleQueue[_Slot] = SimpleQueue()
        self._tasks: Queue[tuple[_Slot, int, Callable[[], None]] | None] = Queue(max(1, TASKS_AHEAD * self.workers))
        try:
            for _ in range(1 + self._prefetch):
                self._free.put(self.buffer())
        except (MemoryError, ValueError):  # NumPy raises ValueError where no address could be that large
            shapes = " and ".join("×".join(map(str, shape)) for shape in self.shapes)
            what = f"not enough memory for {1 + self._prefetch} batches of {shapes}"
            raise CaffeliteError(what, remedy="lower batch_size or prefetch") from None
        self._stopping = Event()
        # Daemon threads, so that a program that ends without close() ends.
        self._threads = [Thread(target=self._read, args=(self.position,), name="caffelite data", daemon=True)]
        self._threads += [Thread(target=self._work, name="caffelite data", daemon=True) for _ in range(self.workers)]
        for thread in self._threads:
            thread.start()

    def _stop(self) -> None:
        if self._threads:
            self._stopping.set()  # tasks that have not started are skipped
            with suppress(Empty):
                while True:
                    self._free.get_nowait()
            self._free.put(None)
            reader, *others = self._threads
            reader.join()
            for _ in others:
                self._tasks.put(None)
            for thread in others:
                thread.join()
        self._threads, self._current = [], None

    def _read(self, position: int) -> None:
        size = self.shapes[0][0]
        while (batch := self._free.get()) is not None:
            slot = _Slot(batch, examined=self.floats and position < self.length)
            self._slots.put(slot)
            index = 0
            try:
                for index, task in enumerate(self.tasks(position + self.shard.rank * size, batch)):
                    slot.start_task()
                    self._tasks.put((slot, index, task))
                    if self._stopping.is_set() or slot.failure:
                        break
            except BaseException as failure:
                slot.end_task(index + 1, failure)  # an earlier task may fail as well
                return
            slot.end_task()
            position += self.shard.size * size

    def _work(self) -> None:
        while (job := self._tasks.get()) is not None:
            slot, index, task = job
            failure = None
            if not self._stopping.is_set() and not (slot.failure and slot.failure[0] < index):
                try:
                    task()
                except BaseException as mistake:
                    failure = mistake
            slot.end_task(index, failure)
