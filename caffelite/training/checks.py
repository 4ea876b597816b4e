"""Checks the fields of a SolverParameter that the training loop and its hooks read."""

import math
from collections.abc import Sequence

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Collector, Locator


def check_counts(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every mistake in the counts and numbers of a solver: each that is too small or not finite."""
    mistakes = Collector()
    for descriptor, value in p.ListFields():
        for number in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                where, remedy = locate(descriptor.name), f"correct {descriptor.name}"
                mistakes.add(
                    CaffeliteError(f"{descriptor.name} is no finite number", where=where, found=number, remedy=remedy)
                )
    for name, least in (
        ("max_iter", 0),
        ("iter_size", 1),
        ("average_loss", 1),
        ("display", 0),
        ("test_interval", 0),
        ("snapshot", 0),
    ):
        if getattr(p, name) < least:
            mistakes.add(CaffeliteError(f"{name} must be at least {least}", where=locate(name), found=getattr(p, name)))
    mistakes.raise_any()


def check_hooks(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every mistake in the fields of best scores, early stop, kept snapshots and averaged weights."""
    mistakes = Collector()
    for name in ("snapshot_keep", "early_stop", "swa_start"):
        if getattr(p, name) < 0:
            mistakes.add(CaffeliteError(f"{name} must be at least 0", where=locate(name), found=getattr(p, name)))
    if not 0 <= p.ema_decay < 1:
        mistakes.add(
            CaffeliteError("ema_decay must be from 0 to below 1", where=locate("ema_decay"), found=f"{p.ema_decay:g}")
        )
    if p.ema_decay and p.swa_start:
        what, remedy = "both ema_decay and swa_start are set", "keep one average"
        mistakes.add(CaffeliteError(what, where=locate("swa_start"), remedy=remedy))
    if p.early_stop and not p.best_score:
        remedy = 'name the score, as in best_score: "accuracy"'
        mistakes.add(CaffeliteError("early_stop without best_score", where=locate("early_stop"), remedy=remedy))
    mistakes.raise_any()
