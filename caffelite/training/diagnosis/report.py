"""The report on a loss or weights that are NaN or infinite: the first occurrence, the samples, and possible causes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError, quoted
from ...layers.facets import Described
from ...parallel import Refused
from ..iteration import Norms
from .tracing import TracedArray

LOSS, WEIGHTS = "loss is", "weights are"  # what is found not to be finite
LARGE_INPUT = 20  # unscaled pixels reach 255
GROWS = 3  # a loss counts as growing from this multiple of the median of those before


@dataclass
class Report:
    """The findings on a loss or on weights (``what``) that are not finite. first: the first array that is not; None: no
    array of the repeated iteration is. norms: of the iterations before. bundle: the folder that ``caffelite replay``
    runs again."""

    iteration: int
    first: TracedArray | None
    samples: list[str]
    norms: list[Norms]
    causes: list[str]
    bundle: str = ""
    what: str = LOSS

    def lines(self) -> Iterator[str]:
        first = self.first
        if first is None:
            yield f"Iteration {self.iteration}: the {self.what} not finite, though each blob of its repetition is"
        else:
            count = f"{first.nans} NaN, {first.infinities} infinite of {math.prod(first.shape)}"
            where = f'layer "{first.layer}" ({first.type}), {first.what}'
            yield f"Iteration {self.iteration}: first not finite in {first.direction}: {where}: {count}"
        if self.samples:
            more = f" and {len(self.samples) - 8} more" if len(self.samples) > 8 else ""
            yield f"  samples: {', '.join(self.samples[:8])}{more}"
        for iteration, loss, gradient, weights in self.norms:
            yield f"  iteration {iteration}: loss {loss:.6g}" + "".join(
                f", |{name}| {value:.6g}"
                for name, value in (("gradient", gradient), ("weights", weights))
                if value is not None
            )
        for number, cause in enumerate(self.causes, 1):
            yield f"  perhaps ({number}): {cause}"


class Diverged(CaffeliteError):
    """A loss or weights that are not finite stopped the run."""

    def __init__(self, report: Report):
        first = report.first
        at = f': layer "{first.layer}" ({first.type}), {first.what}' if first else ""
        again = f"look at it layer by layer: caffelite replay {quoted(report.bundle)}" if report.bundle else None
        super().__init__(f"the {report.what} not finite at iteration {report.iteration}{at}", remedy=again)
        self.report = report


def refusal(report: Report, processes: int) -> CaffeliteError:
    """The error that ends the run; of several processes all raise it, and the first one prints it."""
    error = Diverged(report)
    return Refused.of(str(error)) if processes > 1 else error


def causes(
    p: pb.SolverParameter,
    feeding: set[str],
    rate: float,
    trace: list[TracedArray],
    first: TracedArray | None,
    norms: list[Norms],
    bad_samples: list[str],
) -> list[str]:
    """The possible causes, the likeliest first.

    feeding: the names of the layers that feed the net. rate: of the iteration. trace: the arrays of its repetition.
    first: the first one that is not finite. norms: of the iterations before.
    bad_samples: with NaN or infinity, that earlier iterations have read.
    """
    causes: list[tuple[int, str]] = []
    losses = [one.loss for one in norms if math.isfinite(one.loss)]
    grows = len(losses) > 1 and losses[-1] > GROWS * median(losses[:-1]) + 1e-6
    slower = f"lower base_lr (the rate is {rate:.3g})"
    if first:
        causes += _causes_of(first, feeding)
    if bad_samples and not (first and first.layer in feeding):
        causes.append((0, f"the data hold NaN or infinity: {', '.join(bad_samples)}; correct them, or leave them out"))
    if grows:
        what = f"the loss grew from {median(losses[:-1]):.4g} to {losses[-1]:.4g}"
        causes.append((3, f"the rate is too high: {what}; {slower}, or warm up"))
    large = [one for one in trace if one.layer in feeding and _reach(one) > LARGE_INPUT and len(one.shape) > 1]
    if large:
        what = f"inputs are large: {large[0].what} reaches {_reach(large[0]):.4g}"
        causes.append((4, f"{what}; scale them (transform_param {{ scale: ... }})"))
    if first and first.direction == "backward":
        what = "the gradient alone is not finite: a root, norm or quotient at 0; or too long: set clip_gradients"
        causes.append((3, what))
    if not grows:
        causes.append((5, f"the rate may be too high: {slower}"))
    if p.clip_gradients < 0:
        causes.append((6, "gradients are not clipped: clip_gradients: 10 bounds what one batch can do"))
    return [cause for _, cause in sorted(causes, key=lambda entry: entry[0])]


def _reach(one: TracedArray) -> float:
    return max(abs(one.least), abs(one.greatest))


def _causes_of(first: TracedArray, feeding: set[str]) -> Iterator[tuple[int, str]]:
    if first.layer in feeding:
        yield 0, "the data itself: these samples hold NaN or infinity"
    if "parameter" in first.what and first.direction == "forward":
        when = "an update before this iteration corrupted it; with snapshots the first such update could be found"
        yield 1, f"{first.what} of the layer was already corrupted: {when}"
    if mathematics := Described.of(first.type).not_finite:
        yield 2, f"the layer's own mathematics: {mathematics}"
