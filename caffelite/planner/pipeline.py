"""Computes the time of a pipeline under the 1F1B schedule: one forward, one backward pass in turn on each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


def order(stages: int, stage: int, micro_batches: int) -> list[tuple[bool, int]]:
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
    waiting = [order(stages, s, micro_batches)[::-1] for s in range(stages)]
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
