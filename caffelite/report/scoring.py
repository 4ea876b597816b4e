"""Tests a net on its data, each sample once: the number of batches, and the last, smaller batch."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from ..errors import CaffeliteError
from ..net.net import Net
from ..training.scores import Scores, combined, mean_scores, unscored
from .collect import OutputCollector

log = logging.getLogger("caffelite")

DEFAULT = 50  # batches, where neither the command nor a report says how many
OnBatch = Callable[[int, list], None]  # called with the index of a batch and the net's outputs


def count_batches(requested: int | None, collector: OutputCollector, everything: bool) -> int:
    """How many batches to test: as requested, or DEFAULT, or all, but no sample twice."""
    if not collector.once:
        return requested or DEFAULT
    whole, left = collector.once
    most = whole + bool(left)
    if requested and requested > most:
        text = "The data have %d samples, which %d batches hold once: more would test them again."
        log.info(text, collector.source.length, most)
    return most if everything and not requested else min(requested or DEFAULT, most)


def score(
    net: Net, open_rest: Callable[[int], Net], count: int, collector: OutputCollector, on_batch: OnBatch
) -> Scores:
    """The mean scores over ``count`` batches.

    open_rest(samples): returns the net with a smaller batch, for the samples that remain after the full batches.
    """
    whole, left = collector.once or (count, 0)
    scores: list[Scores | None] = []
    if min(count, whole):
        scores.append(mean_scores(net, min(count, whole), each=on_batch))
    if count > whole:
        try:
            rest = open_rest(left)
        except CaffeliteError as mistake:
            if not whole:
                raise
            log.warning("The last %d samples are left out, as the net takes no batch of %d: %s", left, left, mistake)
        else:
            for _, source in rest.sources():
                source.seek(collector.first + collector.source.length - left)
            collector.turn_to(rest)
            scores.append(mean_scores(rest, 1, each=functools.partial(_shifted, whole, on_batch)))
    total = combined(net, [part for part in scores if part])
    for text in unscored(collector.net, total.outputs):
        log.warning("%s", text)
    return total


def _shifted(first: int, on_batch: OnBatch, index: int, outputs: list) -> None:
    on_batch(first + index, outputs)
