"""Additional streams of a GPU, for copies and concurrent operations, and captured graphs.
They work on any backend, including that of the tests."""

import numpy as np


class Graph:
    """A captured graph of CuPy's, launched on the stream that it was captured on until ``close`` destroys it.

    Close it before the communicator of its operations: NCCL waits for such graphs when a communicator is
    destroyed.
    """

    def __init__(self, graph, stream):
        self._graph, self._stream = graph, stream
        graph.upload(stream)

    def launch(self) -> None:
        self._graph.launch(self._stream)

    def close(self) -> None:
        """Destroys it; a launch that runs finishes."""
        self._graph = None  # the only reference: a traceback may hold this object, but not CuPy's


class CopyStream:
    """Copies to the device on a separate stream, while the main stream computes.

    slots: how many targets there are, used in turn. backend: makes the stream and the events, and copies.
    """

    def __init__(self, backend, slots: int):
        self._backend, self._main, self._stream = backend, backend.stream, backend.new_stream()
        self._copied, self._used = ([backend.new_event() for _ in range(slots)] for _ in range(2))
        self._fresh = backend.new_event()
        # Pinned memory is reused as soon as no array refers to it.
        self._held: list[list[np.ndarray]] = [[] for _ in range(slots)]

    def upload(self, slot: int, array, host: np.ndarray) -> None:
        """Starts when the slot's last use has ended; operations that are queued from now on wait for it."""
        self._stream.wait_event(self._used[slot])
        self._backend.upload(array, host, self._stream)
        self._held[slot].append(host)
        self._copied[slot].record(self._stream)
        self._main.wait_event(self._copied[slot])

    def follow(self) -> None:
        """Copies from now on wait for the operations queued so far: they may read memory that was allocated again."""
        self._fresh.record(self._main)
        self._stream.wait_event(self._fresh)

    def mark_used(self, slot: int) -> None:
        """The operations queued so far are the last that read the slot."""
        self._used[slot].record(self._main)

    def wait(self, slot: int) -> None:
        """Returns when the slot's last copy has ended."""
        self._copied[slot].synchronize()
        self._held[slot].clear()


class Fork:
    """A second stream: ``with fork: …`` queues operations there, ``join`` makes the main stream wait for them."""

    def __init__(self, backend):
        self._backend, self._stream = backend, backend.new_stream()
        self._begun, self._ended = backend.new_event(), backend.new_event()

    def __enter__(self) -> None:
        self._main = self._backend.stream
        self._begun.record(self._main)
        self._stream.wait_event(self._begun)
        self._backend.use(self._stream)

    def __exit__(self, mistake: type | None, *_) -> None:
        self._backend.use(self._main)
        if mistake is None:  # after an error nothing joins, and CUDA refuses to record in a failed capture
            self._ended.record(self._stream)

    def join(self) -> None:
        """Operations queued from now on wait for those of this stream."""
        self._main.wait_event(self._ended)
