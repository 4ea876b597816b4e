"""Source: batches kept ready by a thread, in buffers that are made once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np

from caffelite.errors import CaffeliteError

MOST_PREFETCH = 32  # batches; more would only take memory


@dataclass(frozen=True)
class Share:
    """One of ``size`` readers of the same samples: they take batches in turn, so that together they read what one alone would."""

    rank: int = 0
    size: int = 1


class Source:
    """Hands out batches, one float32 array per top; what it hands out depends on nothing but `position` and `share`.

    shapes: one per top, batch first. length: samples per epoch. position: samples handed out since the start, by all that share them and
    are equally far; what the thread has prepared beyond that does not count. A kind of source implements `fill` and, where it holds files,
    `release`.
    """

    def __init__(self, shapes: list[tuple[int, ...]], length: int, prefetch: int = 4):
        self.shapes, self.length, self.position = shapes, length, 0
        self.share = Share()
        self._prefetch = min(max(1, prefetch), MOST_PREFETCH)
        self._thread: Thread | None = None
        self._closed = False

    def fill(self, position: int, batch: list[np.ndarray]) -> None:
        """Writes the samples from `position` on into the batch's arrays; called from the thread."""
        raise NotImplementedError

    def release(self) -> None:
        """Closes what the source holds; called once, when the thread has ended."""

    def next(self) -> list[np.ndarray]:
        """The next batch: C-contiguous float32 arrays, the caller's until the following call.

        A failure of the thread is raised here, in its turn; the following call tries the same batch again.
        """
        if self._closed:
            raise ValueError("the source is closed")
        if not self._thread:
            self._start()
        elif self._lent:
            self._free.put(self._lent)
        self._lent = None
        answer = self._ready.get()
        if isinstance(answer, BaseException):
            self._stop()
            raise answer
        self._lent = answer
        self.position += self.shapes[0][0] * self.share.size
        return answer

    def seek(self, samples: int) -> None:
        """Goes on as a source would that has handed out, with those that share its samples, so many since the start."""
        self._stop()
        self.position = samples

    def close(self) -> None:
        """Ends the thread and closes the files; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._stop()
            self.release()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._free, self._ready, self._lent = SimpleQueue(), SimpleQueue(), None
        try:
            for _ in range(1 + self._prefetch):
                self._free.put([np.empty(shape, np.float32) for shape in self.shapes])
        except (MemoryError, ValueError):  # NumPy says the second where no address could be that large
            shapes = " and ".join("×".join(map(str, shape)) for shape in self.shapes)
            what = f"not enough memory for {1 + self._prefetch} batches of {shapes}"
            raise CaffeliteError(what, remedy="lower batch_size or prefetch") from None
        # A daemon, so that a program that ends without close() ends.
        self._thread = Thread(target=self._work, args=(self._free, self._ready, self.position), name="caffelite data", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        if self._thread:
            with suppress(Empty):  # what the thread has not begun, it need not do
                while True:
                    self._free.get_nowait()
            self._free.put(None)
            self._thread.join()
        self._thread = self._lent = None

    def _work(self, free: SimpleQueue, ready: SimpleQueue, position: int) -> None:
        size = self.shapes[0][0]
        try:
            while (batch := free.get()) is not None:
                self.fill(position + self.share.rank * size, batch)
                ready.put(batch)
                position += self.share.size * size
        except BaseException as failure:
            ready.put(failure)
