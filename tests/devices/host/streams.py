"""Streams, events and graph capture of the stand-in for CUDA: work that is done at once, early or late."""

from __future__ import annotations

import collections
import functools


class Refused(Exception):
    """What CUDA raises where something cannot be captured."""


def queued(method):
    """A method that only queues: in a capture it is kept, to run when the graph is launched, with the arguments of
    now."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        self.queue(functools.partial(method, self, *args, **kwargs))

    return call


def refused(method):
    """A method that a capture refuses."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if self.stream.capture:
            raise Refused(f"{method.__name__} in a capture")
        return method(self, *args, **kwargs)

    return call


def waits(method):
    """A method that returns when all that was queued is done."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        self.stream.synchronize()
        return method(self, *args, **kwargs)

    return refused(call)


class Stream:
    """Work in the order that it was queued in: done at once, or as late as CUDA may do it, or early, when what it waits
    for is done: then it goes step by step with the stream that it was made beside."""

    def __init__(self, when: str, beside: Stream | None = None):
        self._when, self._work, self.added, self.done = when, collections.deque(), 0, 0
        self._beside: list[Stream] = []  # early ones
        self._stepping = False
        if beside and when == "early":
            beside._beside.append(self)
        self.capture: Capture | None = None  # the one under way that this stream is part of

    def add(self, work) -> None:
        if self.capture:
            self.capture.keep(self, self.add, work)
            return
        self._work.append((work, None, 0))
        self._added()

    def wait_event(self, event: Event) -> None:
        if event.capture:
            event.capture.wait(self, event)
        elif self.capture:
            raise Refused("a capture waits for what was queued before it")
        elif event.stream:
            self._work.append((None, event.stream, event.at))
            self._added()

    def _added(self) -> None:
        self.added += 1
        if self._when == "at once":
            self.synchronize()
        while self._when == "early" and self._ready():
            self._step()

    def _ready(self) -> bool:
        """Whether a next step waits for nothing that is not done."""
        return (
            bool(self._work)
            and not self._stepping
            and (self._work[0][1] is None or self._work[0][1].done >= self._work[0][2])
        )

    def _step(self) -> None:
        work, stream, at = self._work.popleft()
        self._stepping = True
        try:
            if stream:
                stream.run(at)
            else:
                work()
        finally:
            self._stepping = False
            self.done += 1
        for other in self._beside:
            if other._ready():
                other._step()

    def run(self, upto: int) -> None:
        while self.done < upto:
            self._step()

    def synchronize(self) -> None:
        self.run(self.added)


class Event:
    stream = capture = None

    def record(self, stream: Stream) -> None:
        self.capture = stream.capture
        if stream.capture:
            stream.capture.record(stream, self)
        else:
            self.stream, self.at = stream, stream.added

    def synchronize(self) -> None:
        if self.stream:
            self.stream.run(self.at)


class Capture:
    """What is queued on a stream, and on those that fork from it, is kept until it ends. All of those must have joined
    it by then."""

    def __init__(self, stream: Stream):
        self._origin, self._streams, self.calls = stream, [stream], []
        self._loose: dict[
            Stream, Event | None
        ] = {}  # streams that have not joined since they forked, and what they recorded last of all
        stream.capture = self

    def keep(self, stream: Stream, call, *arguments) -> None:
        self.calls.append(functools.partial(call, *arguments))
        if stream is not self._origin:
            self._loose[stream] = None

    def record(self, stream: Stream, event: Event) -> None:
        self.keep(stream, event.record, stream)
        if stream is not self._origin:
            self._loose[stream] = event

    def wait(self, stream: Stream, event: Event) -> None:
        if not stream.capture:
            stream.capture = self
            self._streams.append(stream)
        self.keep(stream, stream.wait_event, event)
        if stream is self._origin:
            self._loose = {other: last for other, last in self._loose.items() if last is not event}

    def end(self) -> None:
        for stream in self._streams:
            stream.capture = None
        if self._loose:
            raise Refused("a stream that forked has not joined")


class Graph:
    """What a capture kept."""

    def __init__(self, calls: list):
        self._calls, self.runs, self.closed = calls, 0, False

    def launch(self) -> None:
        assert not self.closed
        self.runs += 1
        for call in self._calls:
            call()

    def close(self) -> None:
        self.closed = True

    def __len__(self) -> int:
        return len(self._calls)
