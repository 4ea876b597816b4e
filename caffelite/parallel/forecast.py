"""Predicts the time of an iteration on N processes from measured layers, gradient bytes and link bandwidth.

A ring all-reduce of b bytes over N processes takes 2 (N - 1) / N · b / bandwidth + 2 (N - 1) · latency. Buckets are
reduced one after the other, each when backward has completed it; the iteration waits for those that outlast backward.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """bandwidth: bytes/s that one process sends while it receives as many; latency: seconds a message."""

    bandwidth: float
    latency: float

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds."""
        return 0.0 if ranks == 1 else 2 * (ranks - 1) / ranks * size / self.bandwidth + 2 * (ranks - 1) * self.latency


@dataclass(frozen=True)
class Measured:
    """One process's iteration. Seconds of forward, of each step of backward and of the update; buckets: (step that
    completes it, bytes)."""

    forward: float
    backward: Sequence[float]
    update: float
    buckets: Sequence[tuple[int, int]]
    batch: int

    @property
    def compute(self) -> float:
        return self.forward + sum(self.backward) + self.update


@dataclass(frozen=True)
class Forecast:
    """Seconds of an iteration of ``ranks`` processes, computing and waiting for gradients, which take ``travel`` in
    all."""

    ranks: int
    compute: float
    waiting: float
    travel: float
    batch: int

    @property
    def seconds(self) -> float:
        return self.compute + self.waiting

    @property
    def images(self) -> float:
        """A second."""
        return self.ranks * self.batch / self.seconds


def forecast(
    measured: Measured, ranks: int, link: Link, *, overlap: bool = True, strong: bool = False, slower: float = 1.0
) -> Forecast:
    """overlap: links move gradients while processes compute. strong: the batch is divided, and with it the time of
    forward and backward.

    slower: how many times longer computing takes, as where processes share cores.
    """
    scale = slower / (ranks if strong else 1)
    travels = [link.all_reduce(size, ranks) for _, size in measured.buckets]
    ends = [0.0]
    for seconds in measured.backward:
        ends.append(ends[-1] + seconds * scale)
    free = 0.0
    for (step, _), seconds in zip(measured.buckets, travels, strict=True):
        free = max(free, ends[step + 1] if overlap else ends[-1]) + seconds
    compute = (measured.forward + sum(measured.backward)) * scale + measured.update * slower
    batch = max(1, measured.batch // ranks) if strong else measured.batch
    return Forecast(ranks, compute, max(0.0, free - ends[-1]), sum(travels), batch)
