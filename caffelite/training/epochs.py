"""Epoch fields of a solver (max_epoch, test_epoch, snapshot_epoch, step_epoch): replaced by iterations, once the size
of the training set and of a batch are known.

One epoch is ceil(samples / batch) iterations, so that lengths in epochs are multiples of each other in iterations too.
"""

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..data import Source
from ..errors import CaffeliteError, Collector, Locator
from .state import TrainingState

log = logging.getLogger("caffelite")

COUNTERPARTS = {"max_epoch": "max_iter", "test_epoch": "test_interval", "snapshot_epoch": "snapshot"}
STEP_FIELDS = {"step": "stepsize", "sigmoid": "stepsize", "multistep": "stepvalue"}  # by lr_policy
FIELDS = (*COUNTERPARTS, "step_epoch")
MOST_ITERATIONS = (1 << 31) - 1
PROVISIONAL = 1000  # iterations an epoch, where fields are only checked


@dataclass(frozen=True)
class Epoch:
    """An epoch of a run. samples: in the training set. batch: samples that an iteration reads, of all processes."""

    samples: int
    batch: int

    @property
    def iterations(self) -> int:
        return -(-self.samples // self.batch)

    def of(self, iteration: int) -> float:
        """The epochs of data that so many iterations read."""
        return iteration * self.batch / self.samples


def epoch_of(sources: Iterable[Source], iter_size: int, processes: int) -> Epoch | None:
    """The epoch of a train net's sources: of the first one with a length; None where no source has one."""
    for source in sources:
        if getattr(source, "length", None):
            return Epoch(source.length, source.shapes[0][0] * iter_size * processes)
    return None


def given(p: pb.SolverParameter) -> list[str]:
    """The epoch fields that a solver sets."""
    return [name for name in FIELDS if (len(p.step_epoch) if name == "step_epoch" else p.HasField(name))]


def values(p: pb.SolverParameter) -> dict[str, list[float]]:
    """The epoch fields that a solver sets, for the records of a run."""
    return {name: list(p.step_epoch) if name == "step_epoch" else [getattr(p, name)] for name in given(p)}


def restored(p: pb.SolverParameter, epoch: dict[str, Any]) -> pb.SolverParameter:
    """The solver with the epoch fields in place of the iterations that they meant.

    epoch: the records of its run, "samples", "batch" and "fields" of ``values``. A solver whose fields do not mean
    these iterations is returned unchanged.
    """
    in_epochs = pb.SolverParameter()
    in_epochs.CopyFrom(p)
    try:
        for name, lengths in epoch["fields"].items():
            in_epochs.ClearField(counterpart(p, name))
            if name == "step_epoch":
                in_epochs.step_epoch.extend(lengths)
            else:
                setattr(in_epochs, name, *lengths)
        again = resolve(in_epochs, Locator("<run>"), Epoch(epoch["samples"], epoch["batch"]))[0]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, CaffeliteError):
        return p
    return in_epochs if again == p else p


def check(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every mistake in the epoch fields: values, a counterpart in iterations, a policy without steps."""
    mistakes = Collector()
    for name, lengths in values(p).items():
        for i, value in enumerate(lengths):
            if not 0 < value < math.inf:
                path = (name, i) if name == "step_epoch" else (name,)
                mistakes.add(locate.error(f"{name} must be a finite number above 0", *path, found=f"{value:g}"))
        others = ("stepsize", "stepvalue") if name == "step_epoch" else (COUNTERPARTS[name],)
        for other in others:
            if len(p.stepvalue) if other == "stepvalue" else p.HasField(other):
                what = f"both {name} and {other} ({locate(other)}) are set"
                mistakes.add(locate.error(what, name, remedy="keep one of them"))
    if len(p.step_epoch) and p.lr_policy not in STEP_FIELDS:
        what, expected = f'lr_policy "{p.lr_policy}" does not use step_epoch', f"one of {', '.join(STEP_FIELDS)}"
        mistakes.add(locate.error(what, "step_epoch", expected=expected, remedy="drop step_epoch"))
    elif len(p.step_epoch) > 1 and p.lr_policy != "multistep":
        what, remedy = f'lr_policy "{p.lr_policy}" takes one step_epoch', '"multistep" takes several'
        mistakes.add(locate.error(what, "step_epoch", found=len(p.step_epoch), remedy=remedy))
    elif list(p.step_epoch) != sorted(set(p.step_epoch)):
        epoch_list = ", ".join(f"{value:g}" for value in p.step_epoch)
        mistakes.add(locate.error("step_epoch must rise", "step_epoch", found=epoch_list))
    mistakes.raise_any()


def resolve(
    p: pb.SolverParameter, locate: Locator, epoch: Epoch | None, remedy: str = ""
) -> tuple[pb.SolverParameter, Locator]:
    """The solver with iterations in place of its epoch fields, and where they are: the places of the epoch fields.

    A solver without epoch fields is returned unchanged. remedy: what helps where the epoch is unknown. Errors: those of
    ``check``; the epoch is unknown; more iterations than 32 bits hold.
    """
    names = given(p)
    if not names:
        return p, locate
    check(p, locate)
    if epoch is None:
        what = f"{names[0]} needs the size of the training set, which no data layer of the train net has"
        others = ", ".join(counterpart(p, name) for name in names)
        raise locate.error(what, names[0], remedy=remedy or f"set {others} instead")
    return _replaced(p, locate, epoch.iterations)


def provisional(p: pb.SolverParameter, locate: Locator) -> tuple[pb.SolverParameter, Locator]:
    """As ``resolve``, with an assumed number of iterations an epoch: for checks that precede the data. Errors: those of
    ``check``."""
    if not given(p):
        return p, locate
    check(p, locate)
    longest = max(1.0, *p.step_epoch, *(getattr(p, name) for name in COUNTERPARTS))
    return _replaced(p, locate, max(1, min(PROVISIONAL, int(MOST_ITERATIONS / longest))), check_size=False)


def counterpart(p: pb.SolverParameter, name: str) -> str:
    """The field in iterations that an epoch field replaces."""
    return COUNTERPARTS.get(name) or STEP_FIELDS[p.lr_policy]


def _replaced(
    p: pb.SolverParameter, locate: Locator, iterations: int, check_size: bool = True
) -> tuple[pb.SolverParameter, Locator]:
    resolved, moves = pb.SolverParameter(), {}
    resolved.CopyFrom(p)
    for name, lengths in values(p).items():
        other = counterpart(p, name)
        # A float32 such as 0.7 means the decimal number that it was written as.
        counts = [max(1, math.floor(Fraction(str(np.float32(value))) * iterations)) for value in lengths]
        if max(counts) > MOST_ITERATIONS:
            if check_size:
                what = f"{name} {max(lengths):g} is more iterations than {other} can hold"
                raise locate.error(what, name, expected=f"at most {MOST_ITERATIONS}", found=max(counts))
            counts = [min(count, MOST_ITERATIONS) for count in counts]
        if other == "stepvalue":
            resolved.stepvalue.extend(counts)
        else:
            setattr(resolved, other, counts[0])
            moves[(name, 0) if name == "step_epoch" else (name,)] = (other,)
        moves.setdefault((name,), (other,))
        resolved.ClearField(name)
    return resolved, locate.moved(moves)


def described(epoch: Epoch, p: pb.SolverParameter, resolved: pb.SolverParameter) -> str:
    """A log line: the epoch, and the epoch fields of a solver with the iterations that they mean."""
    samples = f"Epochs: {epoch.samples} samples, {epoch.batch} in an iteration, {epoch.iterations} iterations each"
    return f"{samples}; {', '.join(meanings(p, resolved))}"


def meanings(p: pb.SolverParameter, resolved: pb.SolverParameter) -> list[str]:
    """The epoch fields of a solver with the iterations that they mean, as "max_epoch 10 is max_iter 3910"."""
    texts = []
    for name, lengths in values(p).items():
        other = counterpart(p, name)
        counts = list(resolved.stepvalue) if other == "stepvalue" else [getattr(resolved, other)]
        texts.append(f"{name} {' '.join(f'{v:g}' for v in lengths)} is {other} {' '.join(map(str, counts))}")
    return texts


def check_resumed(epoch: Epoch | None, state: TrainingState) -> None:
    """Warns where a snapshot was written with another number of samples an iteration. epoch: None where the solver has
    no epoch fields."""
    train = (entry.source for entry in state.sources if entry.net == "train")
    position = next((source.position for source in train if getattr(source, "length", None)), 0)
    if not epoch or not position or position == state.iteration * epoch.batch:
        return
    log.warning(
        "The snapshot has read %d samples (%.4g epochs) in %d iterations, but this run reads %d in an iteration: "
        "epochs are counted in iterations of this run, of which %d are %.4g epochs. The same number of samples in an "
        "iteration (by -scaling strong, batch_size or iter_size) continues the original schedule.",
        position,
        position / epoch.samples,
        state.iteration,
        epoch.batch,
        state.iteration,
        epoch.of(state.iteration),
    )
