"""Checks the fields of a SolverParameter that the training loop and its hooks read."""

import math
from collections.abc import Sequence

from .. import caffelite_pb2 as pb
from ..errors import Collector, Locator


def check_counts(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every mistake in the counts and numbers of a solver: each that is too small or not finite."""
    mistakes = Collector()
    for descriptor, value in p.ListFields():
        for number in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                what, remedy = f"{descriptor.name} is no finite number", f"correct {descriptor.name}"
                mistakes.add(locate.error(what, descriptor.name, found=number, remedy=remedy))
    for name in ("max_iter", "iter_size", "average_loss", "display", "test_interval", "snapshot"):
        least = int(name in ("iter_size", "average_loss"))
        if getattr(p, name) < least:
            mistakes.add(locate.error(f"{name} must be at least {least}", name, found=getattr(p, name)))
    mistakes.raise_any()


def check_hooks(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every mistake in the fields of best scores, early stop, kept snapshots and averaged weights."""
    mistakes = Collector()
    for name in ("snapshot_keep", "early_stop", "swa_start"):
        if getattr(p, name) < 0:
            mistakes.add(locate.error(f"{name} must be at least 0", name, found=getattr(p, name)))
    if not 0 <= p.ema_decay < 1:
        mistakes.add(locate.error("ema_decay must be from 0 to below 1", "ema_decay", found=f"{p.ema_decay:g}"))
    if p.ema_decay and p.swa_start:
        what, remedy = "both ema_decay and swa_start are set", "keep one average"
        mistakes.add(locate.error(what, "swa_start", remedy=remedy))
    if p.early_stop and not p.best_score:
        remedy = 'name the score, as in best_score: "accuracy"'
        mistakes.add(locate.error("early_stop without best_score", "early_stop", remedy=remedy))
    mistakes.raise_any()
