"""Training on the same few batches: whether a net learns at all."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..data.repeated import Repeated
from ..training import Trainer
from ..training.hooks.hook import Hook
from ..training.state import TrainingState

log = logging.getLogger("caffelite")


class Overfit(Hook):
    """Feeds the train net its first ``batches`` batches over and over; ``close`` logs whether it learned them."""

    def __init__(self, trainer: Trainer, batches: int):
        self._batches = batches
        self._first = self._last = float("nan")
        passes = batches * trainer.parts.divisions  # a micro-batch is a part of a batch
        for node in trainer.net.graph.feeds:
            if getattr(node.layer, "source", None) is not None:
                trainer.replace_source(node, Repeated(node.layer.source, passes))

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        self._first = values[0] if first == 0 else self._first
        self._last = min(values[-self._batches :], key=lambda loss: (loss == loss, loss))  # NaN before any number

    def close(self) -> None:
        learned = self._last < 0.1 * self._first
        verdict = (
            "it learns" if learned else "it does not overfit them; train longer, or check rate, fillers and labels"
        )
        text = "Loss of the same %d batches: %.6g at first, %.6g at last: %s"
        log.info(text, self._batches, self._first, self._last, verdict)
