"""Divides a sequence of layers into pipeline stages such that an iteration takes the least time: exact.

With M micro-batches, an iteration takes (M - 1) · (the slowest stage) + (the sum of all stages), each stage in seconds
for one micro-batch, forward and backward. That is the time of the 1F1B schedule when all stages take equally long, and
a bound otherwise; `timeline` computes the schedule itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Segments:
    """The costs of every possible stage: a stage is the layers from boundary ``i`` up to boundary ``j`` > i.

    ``seconds`` (S, B, B): of a micro-batch on stage s, by s, i and j; infinite where a stage is not allowed.
    ``fixed`` (B, B): bytes of a device for the stage's parameters. ``per_flight`` (B, B): bytes for each micro-batch
    in flight; stage s of S has at most min(S - s, M) in flight.
    """

    seconds: np.ndarray
    fixed: np.ndarray
    per_flight: np.ndarray

    @property
    def stages(self) -> int:
        return len(self.seconds)

    @property
    def boundaries(self) -> int:
        return self.seconds.shape[1]


@dataclass(frozen=True)
class Cut:
    """``boundaries``: the stages' ends, the first 0; ``seconds``: of an iteration; ``slowest``: of the slowest stage
    for one micro-batch."""

    boundaries: tuple[int, ...]
    seconds: float
    slowest: float


def within(segments: Segments, micro_batches: int, limit: float | None) -> np.ndarray:
    """(S, B, B): the seconds of each stage, infinite where the stage takes more than ``limit`` bytes."""
    seconds = segments.seconds.copy()
    above = np.tril(np.ones(seconds.shape[1:], bool))
    for stage in range(segments.stages):
        seconds[stage][above] = np.inf
        if limit is not None:
            flights = min(segments.stages - stage, micro_batches)
            seconds[stage][segments.fixed + flights * segments.per_flight > limit] = np.inf
    return seconds


def best_cut(segments: Segments, micro_batches: int, limit: float | None = None) -> Cut | None:
    """The cut into stages with the shortest iteration; None where none fits into ``limit`` bytes a device.

    Each bound on the slowest stage has a cut with the smallest sum, which a dynamic programme over the boundaries
    finds. The bounds go down from the largest that can give a shorter iteration than the cut with the smallest
    slowest stage.
    """
    seconds = within(segments, micro_batches, limit)
    least = _least_slowest(seconds)
    if not np.isfinite(least):
        return None
    others = micro_batches - 1
    best = _least_sum(np.where(seconds <= least, seconds, np.inf), micro_batches)
    smallest = _least_sum(seconds, micro_batches)
    if best is None or smallest is None:
        return None
    sums = smallest.seconds - others * smallest.slowest
    bound = np.nextafter((best.seconds - sums) / others, np.inf) if others else np.inf
    while bound > least:
        cut = _least_sum(np.where(seconds < bound, seconds, np.inf), micro_batches)
        if cut is None or cut.seconds - others * (cut.slowest - least) >= best.seconds:
            break
        if cut.seconds < best.seconds:
            best = cut
        bound = cut.slowest
    return best


def _least_slowest(seconds: np.ndarray) -> float:
    """The seconds of the slowest stage, at least."""
    rest = np.full(seconds.shape[1], np.inf)
    rest[-1] = 0.0
    for stage in reversed(seconds):
        rest = np.maximum(stage, rest[None, :]).min(axis=1)
    return float(rest[0])


def _least_sum(seconds: np.ndarray, micro_batches: int) -> Cut | None:
    """The cut with the smallest sum of stages; of several the one with the first boundaries."""
    rest, choices = np.full(seconds.shape[1], np.inf), []
    rest[-1] = 0.0
    for stage in reversed(seconds):
        sums = stage + rest[None, :]
        choices.append(sums.argmin(axis=1))
        rest = sums.min(axis=1)
    if not np.isfinite(rest[0]):
        return None
    boundaries = [0]
    for choice in reversed(choices):
        boundaries.append(int(choice[boundaries[-1]]))
    return evaluated(seconds, boundaries, micro_batches)


def evaluated(seconds: np.ndarray, boundaries: Sequence[int], micro_batches: int) -> Cut:
    """The cut at ``boundaries``, with its time, infinite where a stage is not allowed."""
    each = [float(s[i, j]) for s, (i, j) in zip(seconds, pairwise(boundaries), strict=True)]
    slowest = max(each)
    total = (micro_batches - 1) * slowest + sum(each) if math.isfinite(slowest) else math.inf
    return Cut(tuple(boundaries), total, slowest)


@dataclass(frozen=True)
class Timeline:
    """``ends``: seconds at which each stage has computed its gradients; ``last_backwards``: seconds at which
    that pass began; ``busy``: seconds that each stage computes."""

    ends: tuple[float, ...]
    last_backwards: tuple[float, ...]
    busy: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Of all passes of an iteration."""
        return max(self.ends)

    @property
    def bubble(self) -> float:
        """The share of the devices' time in which they wait for others."""
        return 1 - sum(self.busy) / (len(self.busy) * self.seconds) if self.seconds else 0.0


def pass_order(stages: int, stage: int, micro_batches: int) -> list[tuple[bool, int]]:
    """The passes of a stage in their order: (whether it is backward, micro-batch)."""
    ahead = min(stages - 1 - stage, micro_batches)
    passes = [(False, m) for m in range(ahead)]
    for m in range(micro_batches):
        if m + ahead < micro_batches:
            passes.append((False, m + ahead))
        passes.append((True, m))
    return passes


def timeline(
    forward: Sequence[float], backward: Sequence[float], micro_batches: int, gradients: Sequence[float] = ()
) -> Timeline:
    """forward, backward: seconds of each stage for one micro-batch, with what it sends and receives. gradients: seconds
    that each stage computes after its last backward pass."""
    stages = len(forward)
    gradients = gradients or [0.0] * stages
    waiting = [pass_order(stages, s, micro_batches)[::-1] for s in range(stages)]
    finished: dict[tuple[int, bool, int], float] = {}
    now, began = [0.0] * stages, [0.0] * stages
    while any(waiting):
        for s, passes in enumerate(waiting):
            while passes:
                back, m = passes[-1]
                before = s + 1 if back else s - 1
                if 0 <= before < stages and (before, back, m) not in finished:
                    break
                began[s] = max(now[s], finished.get((before, back, m), 0.0))
                now[s] = began[s] + (backward[s] if back else forward[s])
                finished[s, back, m] = now[s]
                passes.pop()
    busy = tuple(micro_batches * (f + b) + g for f, b, g in zip(forward, backward, gradients, strict=True))
    return Timeline(tuple(end + g for end, g in zip(now, gradients, strict=True)), tuple(began), busy)
